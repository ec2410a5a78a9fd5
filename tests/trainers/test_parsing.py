"""From trees to a parser, its scores and its trees, as a user does it."""

import json
import shutil

import pytest

from export.parsing.linear import Symbols
from export.parsing.trees import read_tree, read_trees, words
from tests import processes
from tests.export import tiny
from tests.processes import ROOT
from tests.trainers import cipher, commands
from trainers.checkpoints import Checkpoints

PREFIX = ROOT / "tests" / "data" / "craft" / "craft"
TINY = (
    f"--dataset=trees:{PREFIX}",
    "--set=vocabulary_size=300",
    *commands.MINUTE_MODEL,
    "--set=cooldown_steps=0",
    "--batch_tokens=1024",
    "--report_steps=3",
    "--model_dir=m",
)
SENTENCES = [
    "The protein binds to DNA .",
    "",
    "( one\u00a0two )",
    " ".join(["word"] * 300),
    "x",
]


def _run(module, *arguments, folder, code=0, **options):
    done = processes.run({"module": module}, arguments, folder, **options)
    assert done.code == code, done.err
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, result) of a parser of 6 updates."""
    folder = tmp_path_factory.mktemp("parser")
    result = _run("trainers.parsing", *TINY, "--train_steps=6", folder=folder)
    return folder, result


def test_the_sizes_follow_from_the_trees(trained):
    folder, result = trained
    symbols = Symbols.of(read_trees(f"{PREFIX}.train.ptb"))
    config = json.loads((folder / "m" / "config.json").read_text())
    assert config["vocabulary_size"] == symbols.vocabulary_size
    assert config["source_vocabulary_size"] == 300
    assert config["target_words_from"] == 4 + 2 * len(symbols.labels)
    assert 4 < config["source_words_from"] < 300
    assert "step 6: dev loss" in result.out
    assert "python -m export.parse --model=m" in result.out


def test_it_resumes(trained, tmp_path):
    shutil.copytree(trained[0] / "m", tmp_path / "m")
    result = _run("trainers.parsing", *TINY, "--train_steps=9", folder=tmp_path)
    assert "Resuming from step 6." in result.out
    steps = Checkpoints(tmp_path / "m" / "checkpoints", 5).steps()
    assert steps == [6, 9]


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_trees_are_over_exactly_the_words(trained, tmp_path, beam):
    """Of a model that has learned nothing; a line gives a line."""
    (tmp_path / "in").write_text("\n".join(SENTENCES) + "\n")
    done = _run(
        "export.parse",
        f"--model={trained[0] / 'm'}",
        f"--beam_size={beam}",
        "--input=in",
        folder=tmp_path,
    )
    lines = done.out.split("\n")[:-1]
    assert len(lines) == len(SENTENCES)
    for sentence, line in zip(SENTENCES, lines):
        if not sentence:
            assert line == ""
            continue
        expected = sentence.replace("(", "-LRB-").replace(")", "-RRB-")
        expected = expected.replace("\u00a0", "")
        assert " ".join(words(read_tree(line))) == expected


def test_scores_are_those_of_the_trees_written(trained, tmp_path):
    from trainers.scores.brackets import score_brackets

    shutil.copytree(trained[0] / "m", tmp_path / "m")
    done = _run(
        "trainers.evaluate",
        "--model_dir=m",
        "--split=dev",
        "--limit=20",
        "--output=out",
        folder=tmp_path,
    )
    gold = list(read_trees(f"{PREFIX}.dev.ptb"))[:20]
    expected = score_brackets(list(read_trees(tmp_path / "out")), gold)
    assert expected.lines[0] in done.out
    (record,) = json.loads((tmp_path / "m" / "scores.json").read_text())
    assert record["score"] == round(expected.every.f1, 4)
    assert record["split"] == "dev"
    assert record["sentences"] == 20


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--dataset=text:toy",), "holds text, but trees was expected"),
        (("--dev_bleu_sentences=3",), "is of translations"),
        (("--set=share_embeddings=all",), "share no embeddings"),
        (("--dataset=trees:nowhere/x",), "nowhere"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(tmp_path, arguments, message):
    cipher.write(tmp_path)
    languages = (
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )
    if "text" in arguments[0]:
        arguments += languages
    result = _run(
        "trainers.parsing", *TINY, *arguments, folder=tmp_path, code=2
    )
    commands.assert_one_clear_line(result, message)
    assert not (tmp_path / "m").exists()


def test_a_parser_is_no_translator_and_the_other_way_round(trained, tmp_path):
    translator = tmp_path / "t"
    tiny.write(translator)
    result = _run(
        "export.parse", f"--model={translator}", folder=tmp_path, code=2
    )
    commands.assert_one_clear_line(result, "holds no parser")
    result = _run(
        "export.translate",
        f"--model={trained[0] / 'm'}",
        folder=tmp_path,
        code=2,
    )
    commands.assert_one_clear_line(result, "source vocabulary of its own")
    result = commands.wmt("--preset=parsing-small", folder=tmp_path)
    commands.assert_one_clear_line(result, "use trainers.parsing")
