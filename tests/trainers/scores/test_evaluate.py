"""`python -m trainers.evaluate` as a user runs it."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import sacrebleu
import tensorflow as tf

from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.serving.served_translator import ServedTranslator
from tests.export import tiny
from tests.trainers import cipher, commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a model `m`, and of the data that it was trained on."""
    folder = tmp_path_factory.mktemp("evaluate")
    tiny.write(folder / "m", seed=5)
    run = {
        "dataset": cipher.write(folder),
        "source_language": cipher.SOURCE,
        "target_language": cipher.TARGET,
    }
    ModelDirectory(folder / "m").write_run(run)
    return folder


@pytest.fixture(scope="module")
def evaluated(evaluator, folder):
    """The command with no flag but the model, the output and noise."""
    flags = "--model_dir=m", "--output=out", "--noise=upper,punctuation"
    return evaluator.run(*flags, folder=folder)


def _figure(result, name):
    return re.search(rf"^{name}.*? = ([\d.]+)", result.out, re.M)[1]


def _scores(folder):
    return json.loads((folder / "m" / "scores.json").read_text())


def test_it_scores_the_test_split_of_the_training_data(evaluated, folder):
    assert evaluated.code == 0, evaluated.err
    texts = (folder / "out").read_text().splitlines()
    references = [target for _, target in cipher.sentences(8, seed=2)]
    bleu = sacrebleu.corpus_bleu(texts, [references])
    assert _figure(evaluated, "BLEU") == f"{bleu.score:.2f}"
    (record,) = _scores(folder)
    assert record["score"] == round(bleu.score, 4)
    assert record["dataset"] == f"text:{folder / 'toy'}"
    assert "trainers.evaluate --model_dir=m" in record["command"]
    perplexity = record["perplexity"]
    assert f"{perplexity['per_token']:.4f}" == _figure(evaluated, "perplexity")
    assert perplexity["per_token"] > 1
    translator = load_translator(folder / "m")
    sources = [source.upper() for source, _ in cipher.sentences(8, seed=2)]
    upper = [each.text for each in translator.translate(sources)]
    # Whatever the case, and in small letters as sacreBLEU does it.
    metric = sacrebleu.BLEU(lowercase=True)
    score = metric.corpus_score(upper, [references])
    assert record["noise"]["upper"]["score"] == round(score.score, 4)
    assert record["noise"]["upper"]["signature"] == str(metric.get_signature())
    assert re.search(rf"^upper +{score.score:.2f} ", evaluated.out, re.M)
    assert [*record["noise"]] == ["upper", "punctuation"]


@pytest.fixture(scope="module")
def with_blanks(folder):
    """Flags of a test split whose lines are not all pairs."""
    sources = ["ba do", "", "ki lu me", " ", "su ta"]
    targets = ["zy wv", "zy", "", "", "cx"]
    cipher.write_split(folder, "blanks.test", sources, targets)
    (folder / f"blanks.test.{cipher.TARGET}").rename(folder / "blanks.test.zh")
    return (
        *("--model_dir=m", "--dataset=text:blanks"),
        *(f"--source_language={cipher.SOURCE}", "--target_language=zh"),
    )


def test_another_search_other_references_and_fewer_lines(
    evaluated, evaluator, folder, with_blanks
):
    """Blank sources are translated to blanks; blank references are none."""
    (before,) = _scores(folder)
    (folder / "one").write_text("zy wv.\n\n他说wc,gw\n\n\n")
    (folder / "two").write_text("\nzy\nwc gw\n\ncx xb\n")
    result = evaluator.run(
        *with_blanks,
        *("--references=one", "--references=two", "--limit=4"),
        *("--beam_size=3", "--alpha=8", "--output=lines"),
        folder=folder,
    )
    assert result.code == 0, result.err
    texts = (folder / "lines").read_text().split("\n")[:-1]
    assert [bool(text) for text in texts] == [True, False, True, False]
    # The target language has its own tokenizer.
    metric = sacrebleu.BLEU(tokenize="zh")
    score = metric.corpus_score(
        [texts[0], texts[2]], [["zy wv.", "他说wc,gw"], [None, "wc gw"]]
    )
    first, record = _scores(folder)
    assert first == before
    assert record["score"] == round(score.score, 4)
    assert record["reference_length"] == score.ref_len
    assert record["signature"] == str(metric.get_signature())
    assert "|pretok:zh|" in record["compound_split_bleu"]["signature"]
    assert (record["sentences"], record["references"]) == (2, 3)
    assert record["split"] == "test with one, two"
    assert (record["beam_size"], record["alpha"]) == (3, 8.0)
    assert "Not scored: 2 of 4 lines" in result.out


@pytest.mark.slow
def test_an_export_scores_as_its_model(evaluated, folder):
    directory = ModelDirectory(folder / "m")
    servable = ServedTranslator(
        directory.load_model(), directory.load_tokenizer(), 64
    )
    path = folder / "exports" / "1"
    tf.saved_model.save(servable, str(path), signatures=servable.signatures())
    languages = (
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainers.evaluate"),
            *("--model_dir=exports", "--dataset=text:toy", *languages),
        ],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    scores = re.compile(r"^(BLEU|95 %|chrF|compound|perplexity).*", re.M)
    found = [match[0] for match in scores.finditer(done.stdout)]
    expected = [match[0] for match in scores.finditer(evaluated.out)]
    # The last digits of a float32 sum may differ.
    assert [line[:20] for line in found] == [line[:20] for line in expected]
    assert found[:4] == expected[:4]


def test_an_imported_model_has_no_data(evaluated, evaluator, folder, tmp_path):
    shutil.copytree(folder / "m", tmp_path / "m")
    directory = ModelDirectory(tmp_path / "m")
    # As the imports write it.
    run = directory.read_run() | {"dataset": "imported from opus"}
    directory.write_run(run)
    result = evaluator.run("--model_dir=m", folder=tmp_path)
    commands.assert_one_clear_line(result, "imported from opus.*--dataset")


def test_refusals(evaluated, evaluator, folder, with_blanks):
    (folder / "short").write_text("one\ntwo\n")
    (folder / "empty").write_text("zy\n\n\n\ncx\n")
    cipher.write_split(folder, "late.test", ["", "su ta"], ["zy", "cx"])
    before = _scores(folder)
    for flags, named in (
        (["--split=valid"], "valid"),
        (["--references=short"], "short"),
        (["--dataset=trees:my"], "trees:my"),
        (["--unconstrained"], "--unconstrained"),
        (["--tokenized", "--tokenize=zh"], "--tokenize=zh"),
        ([*with_blanks, "--references=empty"], "Line 3 .* empty"),
        (
            [f"--target_language={cipher.TARGET}", "--source_language=en"]
            + ["--dataset=text:late", "--limit=1"],
            "--limit",
        ),
    ):
        result = evaluator.run("--model_dir=m", *flags, folder=folder)
        commands.assert_one_clear_line(result, named)
        assert _scores(folder) == before, flags
