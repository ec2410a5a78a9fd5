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
    """The command without any flag but where to write translations."""
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


def test_the_same_again_replaces_and_another_search_is_added(
    evaluated, evaluator, folder
):
    (before,) = _scores(folder)
    evaluator.run("--model_dir=m", "--output=out", folder=folder)
    assert _scores(folder) == [before]
    result = evaluator.run(
        "--model_dir=m", "--beam_size=1", "--alpha=1", folder=folder
    )
    assert result.code == 0, result.err
    first, second = _scores(folder)
    assert first == before
    assert (second["beam_size"], second["alpha"]) == (1, 1.0)


def test_the_search_is_the_one_asked_for(evaluated, evaluator, folder):
    """So high an exponent makes the longest translation the best."""
    result = evaluator.run(
        "--model_dir=m", "--alpha=8", "--output=long", folder=folder
    )
    assert result.code == 0, result.err
    sources = [source for source, _ in cipher.sentences(8, seed=2)]
    expected = Translator.from_directory(folder / "m", alpha=8.0)
    texts = (folder / "long").read_text().splitlines()
    assert texts == [each.text for each in expected.translate(sources)]
    assert texts != (folder / "out").read_text().splitlines()


def test_other_references_tokenised_text_and_fewer_sentences(
    evaluated, evaluator, folder
):
    others = {"one": "wv zy qf.", "two": "wv zy,qf ba"}
    for name, line in others.items():
        (folder / name).write_text(f"{line}\n" * 8)
    result = evaluator.run(
        "--model_dir=m",
        "--references=one",
        "--references=two",
        "--tokenized",
        "--limit=5",
        "--output=few",
        folder=folder,
    )
    assert result.code == 0, result.err
    texts = (folder / "few").read_text().splitlines()
    assert texts == (folder / "out").read_text().splitlines()[:5]
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    streams = [[line] * 5 for line in others.values()]
    score = metric.corpus_score(texts, streams).score
    record = _scores(folder)[-1]
    assert record["score"] == round(score, 4)
    assert record["signature"] == str(metric.get_signature())
    assert (record["sentences"], record["references"]) == (5, 10)


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


def test_a_line_in_is_a_line_out_and_what_was_not_scored_is_said(
    evaluated, evaluator, folder, with_blanks
):
    result = evaluator.run(*with_blanks, "--output=lines", folder=folder)
    assert result.code == 0, result.err
    texts = (folder / "lines").read_text().split("\n")[:-1]
    assert len(texts) == 5
    assert [bool(text) for text in texts] == [True, False, True, False, True]
    bleu = sacrebleu.corpus_bleu([texts[0], texts[4]], [["zy wv", "cx"]])
    record = _scores(folder)[-1]
    assert record["score"] == round(bleu.score, 4)
    assert record["signature"].startswith("nrefs:1|")
    assert (record["sentences"], record["references"]) == (2, 2)
    assert record["not_scored"] == 3
    said = "Not scored: 3 of 5 lines, which have no source or no reference."
    assert said in result.out.splitlines()


def test_a_blank_line_of_references_is_no_reference(
    evaluated, evaluator, folder, with_blanks
):
    (folder / "one").write_text("zy wv\n\nwc\n\n\n")
    (folder / "two").write_text("\nzy\nwc gw\n\ncx xb\n")
    result = evaluator.run(
        *with_blanks,
        "--references=one",
        "--references=two",
        "--output=lines",
        folder=folder,
    )
    assert result.code == 0, result.err
    texts = (folder / "lines").read_text().split("\n")
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(
        [texts[0], texts[2], texts[4]],
        [["zy wv", "wc", "cx xb"], [None, "wc gw", None]],
    )
    record = _scores(folder)[-1]
    assert record["score"] == round(score.score, 4)
    assert record["reference_length"] == score.ref_len
    assert record["signature"] == str(metric.get_signature())
    assert (record["sentences"], record["references"]) == (3, 4)
    assert "Not scored: 2 of 5 lines" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--references=empty"], "Line 3 of --references is blank in empty"),
        (["--limit=2", "--dataset=text:late"], "None of the first 2 lines"),
        (["--tokenized", "--tokenize=zh"], "leave out one of them"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    evaluated, evaluator, folder, with_blanks, options, message
):
    (folder / "empty").write_text("zy\n\n\n\ncx\n")
    cipher.write_split(
        folder, "late.test", ["", "", "su ta"], ["zy", "zy", "cx"]
    )
    before = _scores(folder)
    result = evaluator.run(*with_blanks, *options, folder=folder)
    commands.assert_one_clear_line(result, message)
    assert _scores(folder) == before


@pytest.mark.parametrize(
    ("language", "option", "name"),
    [
        ("zh", [], "zh"),
        pytest.param("zh", ["--tokenize=13a"], "13a", marks=pytest.mark.slow),
        pytest.param("th", [], "char", marks=pytest.mark.slow),
    ],
)
def test_the_target_language_decides_how_words_are_counted(
    evaluated, evaluator, folder, language, option, name
):
    pairs = [("ba do ki", "他说很好。"), ("su ta", "他说很坏。")]
    for code, texts in zip((cipher.SOURCE, language), zip(*pairs)):
        lines = "".join(f"{text}\n" for text in texts)
        (folder / f"other.test.{code}").write_text(lines)
    result = evaluator.run(
        "--model_dir=m",
        "--dataset=text:other",
        f"--source_language={cipher.SOURCE}",
        f"--target_language={language}",
        *option,
        folder=folder,
    )
    assert result.code == 0, result.err
    record = _scores(folder)[-1]
    assert f"|tok:{name}|" in record["signature"]
    pretok = f"|pretok:{name}|"
    assert pretok in record["compound_split_bleu"]["signature"]


@pytest.mark.slow
def test_an_export_scores_as_its_model(evaluated, folder, trained):
    directory = ModelDirectory(trained.path)
    servable = ServedTranslator(
        directory.load_model(), directory.load_tokenizer(), 64
    )
    path = folder / "exports" / "1"
    tf.saved_model.save(servable, str(path), signatures=servable.signatures())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainers.evaluate"),
            "--model_dir=exports",
            f"--dataset={trained.dataset}",
            f"--source_language={cipher.SOURCE}",
            f"--target_language={cipher.TARGET}",
        ],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kept = re.compile(r"^(BLEU|95 %|chrF|compound|perplexity).*", re.M)
    ours = [match[0] for match in kept.finditer(done.stdout)]
    theirs = [match[0] for match in kept.finditer(evaluated.out)]
    # The last digits of a float32 sum may differ.
    assert [line[:20] for line in ours] == [line[:20] for line in theirs]
    assert ours[:4] == theirs[:4]
    assert "Not kept" in done.stdout


@pytest.mark.slow
def test_an_export_does_not_name_its_data(folder):
    done = subprocess.run(
        [sys.executable, "-m", "trainers.evaluate", "--model_dir=exports"],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    said = "exports is an export, which does not name its data: give --dataset"
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model_dir=nowhere"], "no folder nowhere"),
        (["--model_dir=m", "--split=valid"], "no 'valid' split"),
        (["--model_dir=m", "--references=none"], "Cannot read none"),
        (
            ["--model_dir=m", "--references=short"],
            "short has 2 lines for 8 sentences",
        ),
        (["--model_dir=m", "--references=binary"], "not UTF-8"),
        (["--model_dir=m", "--dataset=text:gone/x"], "Cannot list gone"),
        (
            ["--model_dir=m", "--dataset=trees:my"],
            "trees:my holds trees, but text was expected",
        ),
        (["--model_dir=m", "--unconstrained"], "--unconstrained is of parsers"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_what_is_wrong_is_said_in_one_line(
    evaluator, folder, arguments, message
):
    (folder / "short").write_text("one\ntwo\n")
    (folder / "binary").write_bytes(b"\xff\n" * 8)
    result = evaluator.run(*arguments, folder=folder)
    assert result.code == 2
    assert "Traceback" not in result.raw_err
    assert message in result.err.splitlines()[-1]
