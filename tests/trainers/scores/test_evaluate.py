"""`python -m trainers.evaluate` as a user runs it."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import sacrebleu
import tensorflow as tf

from export.model_directory import ModelDirectory
from export.serving.served_translator import ServedTranslator
from export.translators.translator import Translator
from tests.trainers import cipher, commands


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    """Of a copy of the trained model, `m`, which tests add scores to."""
    folder = tmp_path_factory.mktemp("evaluate")
    shutil.copytree(trained.path, folder / "m")
    return folder


@pytest.fixture(scope="module")
def evaluated(evaluator, folder):
    """The command with no flag but the model and the output."""
    return evaluator.run("--model_dir=m", "--output=out", folder=folder)


def _figure(result, name):
    return re.search(rf"^{name}.*? = ([\d.]+)", result.out, re.M)[1]


def _scores(folder):
    return json.loads((folder / "m" / "scores.json").read_text())


def test_it_scores_the_test_split_of_the_training_data(
    evaluated, folder, trained
):
    assert evaluated.code == 0, evaluated.err
    texts = (folder / "out").read_text().splitlines()
    references = [target for _, target in cipher.sentences(8, seed=2)]
    bleu = sacrebleu.corpus_bleu(texts, [references])
    assert _figure(evaluated, "BLEU") == f"{bleu.score:.2f}"
    # What the training wrote is completed, not written twice.
    (record,) = _scores(folder)
    (before,) = json.loads((trained.path / "scores.json").read_text())
    for name in ("score", "signature", "step", "training", "weights", "chrf"):
        assert record[name] == before[name]
    assert "trainers.evaluate --model_dir=m" in record["command"]
    perplexity = record["perplexity"]
    assert f"{perplexity['per_token']:.4f}" == _figure(evaluated, "perplexity")
    assert perplexity["per_token"] > 1


def test_another_search_is_another_entry(evaluated, evaluator, folder):
    """So high an exponent makes the longest translation the best."""
    (before,) = _scores(folder)
    evaluator.run("--model_dir=m", "--output=out", folder=folder)
    assert _scores(folder) == [before]
    result = evaluator.run(
        *("--model_dir=m", "--beam_size=3", "--alpha=8", "--output=long"),
        folder=folder,
    )
    assert result.code == 0, result.err
    first, second = _scores(folder)
    assert first == before
    assert (second["beam_size"], second["alpha"]) == (3, 8.0)
    sources = [source for source, _ in cipher.sentences(8, seed=2)]
    expected = Translator.from_directory(folder / "m", beam_size=3, alpha=8.0)
    texts = (folder / "long").read_text().splitlines()
    assert texts == [each.text for each in expected.translate(sources)]
    assert texts != (folder / "out").read_text().splitlines()


@pytest.fixture(scope="module")
def with_blanks(folder):
    """Flags of a test split whose lines are not all pairs."""
    sources = ["ba do", "", "ki lu me", " ", "su ta"]
    targets = ["zy wv", "zy", "", "", "cx"]
    cipher.write_split(folder, "blanks.test", sources, targets)
    return (
        "--model_dir=m",
        "--dataset=text:blanks",
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )


def test_blank_lines_other_references_and_fewer_lines(
    evaluated, evaluator, folder, with_blanks
):
    """Blank sources are translated to blanks; blank references are none."""
    (folder / "one").write_text("zy wv.\n\nwc,gw\n\n\n")
    (folder / "two").write_text("\nzy\nwc gw\n\ncx xb\n")
    result = evaluator.run(
        *with_blanks,
        *("--references=one", "--references=two", "--tokenized", "--limit=4"),
        "--output=lines",
        folder=folder,
    )
    assert result.code == 0, result.err
    texts = (folder / "lines").read_text().split("\n")[:-1]
    assert [bool(text) for text in texts] == [True, False, True, False]
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    score = metric.corpus_score(
        [texts[0], texts[2]], [["zy wv.", "wc,gw"], [None, "wc gw"]]
    )
    record = _scores(folder)[-1]
    assert record["score"] == round(score.score, 4)
    assert record["reference_length"] == score.ref_len
    assert record["signature"] == str(metric.get_signature())
    assert (record["sentences"], record["references"]) == (2, 3)
    assert record["not_scored"] == 2
    assert "Not scored: 2 of 4 lines" in result.out


def test_the_target_language_decides_how_words_are_counted(
    evaluated, evaluator, folder
):
    (folder / "other.test.en").write_text("ba do ki\nsu ta\n")
    (folder / "other.test.zh").write_text("他说很好。\n他说很坏。\n")
    flags = ("--source_language=en", "--target_language=zh")
    result = evaluator.run(
        "--model_dir=m", "--dataset=text:other", *flags, folder=folder
    )
    assert result.code == 0, result.err
    record = _scores(folder)[-1]
    assert "|tok:zh|" in record["signature"]
    assert "|pretok:zh|" in record["compound_split_bleu"]["signature"]


@pytest.mark.slow
def test_an_export_scores_as_its_model(evaluated, folder, trained):
    directory = ModelDirectory(trained.path)
    servable = ServedTranslator(
        directory.load_model(), directory.load_tokenizer(), 64
    )
    path = folder / "exports" / "1"
    tf.saved_model.save(servable, str(path), signatures=servable.signatures())
    languages = (
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )
    # An export does not say what it was trained on.
    for flags, code in (
        ((), 2),
        ((f"--dataset={trained.dataset}", *languages), 0),
    ):
        command = [sys.executable, "-m", "trainers.evaluate"]
        done = subprocess.run(
            [*command, "--model_dir=exports", *flags],
            cwd=folder,
            env=commands.environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
    scores = re.compile(r"^(BLEU|95 %|chrF|compound|perplexity).*", re.M)
    ours = [match[0] for match in scores.finditer(done.stdout)]
    theirs = [match[0] for match in scores.finditer(evaluated.out)]
    # The last digits of a float32 sum may differ.
    assert [line[:20] for line in ours] == [line[:20] for line in theirs]
    assert ours[:4] == theirs[:4]


def test_refusals(evaluated, evaluator, folder, with_blanks):
    (folder / "short").write_text("one\ntwo\n")
    (folder / "binary").write_bytes(b"\xff\n" * 8)
    (folder / "empty").write_text("zy\n\n\n\ncx\n")
    cipher.write_split(
        folder, "late.test", ["", "", "su ta"], ["zy", "zy", "cx"]
    )
    before = _scores(folder)
    for flags, named in (
        (["--model_dir=nowhere"], "nowhere"),
        (["--split=valid"], "valid"),
        (["--references=none"], "none"),
        (["--references=short"], "short"),
        (["--references=binary"], "UTF-8"),
        (["--dataset=text:gone/x"], "gone"),
        (["--dataset=trees:my"], "trees:my"),
        (["--unconstrained"], "--unconstrained"),
        (["--tokenized", "--tokenize=zh"], "--tokenize=zh"),
        ([*with_blanks, "--references=empty"], "Line 3 .* empty"),
        ([*with_blanks, "--limit=2", "--dataset=text:late"], "--limit"),
    ):
        result = evaluator.run("--model_dir=m", *flags, folder=folder)
        commands.assert_one_clear_line(result, named)
        assert _scores(folder) == before, flags
