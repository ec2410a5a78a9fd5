"""From trees to a parser, its scores and its trees, as a user does it."""

import json
import pathlib
import re
import shutil

import pytest
import tensorflow as tf

from export.model_directory import ModelDirectory
from export.parsing.linearization import SymbolVocabulary
from export.parsing.trees import read_tree, read_trees, tree_words
from export.translators.batches import pad_ids
from export.translators.graph_translator import SearchOutput
from tests import processes
from tests.export import commands as export_commands
from tests.export import tiny
from tests.processes import ROOT
from tests.trainers import cipher, commands
from trainers.scores.brackets import count_broken, score_brackets

PREFIX = ROOT / "tests" / "data" / "craft" / "craft"
TINY = (
    f"--dataset=trees:{PREFIX}",
    "--set=vocabulary_size=300",
    *commands.MINUTE_MODEL,
    "--set=cooldown_steps=0",
    # What has learned nothing says as much as it may.
    "--set=max_extra_tokens=30",
    "--batch_tokens=1024",
    "--report_steps=3",
    "--model_dir=m",
)
# Trees of the dev split.
DEV = 8
SENTENCES = [
    "The protein binds to DNA .",
    "",
    "( one\u00a0two )",
    " ".join(["word"] * 120),
    "x",
]


def _run(module, *arguments, folder, code=0, **options):
    done = processes.run({"module": module}, arguments, folder, **options)
    assert done.code == code, done.err
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, result) of a parser of 6 updates, which no test may change."""
    folder = tmp_path_factory.mktemp("parser")
    shutil.copy(f"{PREFIX}.train.ptb", folder / "t.train.ptb")
    lines = pathlib.Path(f"{PREFIX}.dev.ptb").read_text().splitlines()
    (folder / "t.dev.ptb").write_text("\n".join(lines[:DEV]) + "\n")
    options = (
        f"--dataset=trees:{folder / 't'}",
        "--train_steps=6",
        f"--dev_f1_sentences={DEV}",
    )
    return folder, _run("trainers.parsing", *TINY, *options, folder=folder)


def test_the_sizes_follow_from_the_trees(trained):
    folder, result = trained
    symbols = SymbolVocabulary.from_trees(read_trees(f"{PREFIX}.train.ptb"))
    config = json.loads((folder / "m" / "config.json").read_text())
    assert config["vocabulary_size"] == symbols.vocabulary_size
    assert config["source_vocabulary_size"] == 300
    assert config["first_target_word_id"] == 4 + 2 * len(symbols.labels)
    assert 4 < config["first_source_word_id"] < 300
    assert "step 6: dev loss" in result.out
    # Without a test split dev is not scored in its place.
    assert not (folder / "m" / "scores.json").exists()
    _, commands_to_run = result.out.split("Next:\n")
    assert "export.parse --model=m" in commands_to_run


def test_trees_are_over_exactly_the_words(trained):
    """Of a model that has learned nothing; each line gives a line."""
    code, lines, err = export_commands.run(
        "export.parse", trained[0] / "m", SENTENCES, "--beam_size=4"
    )
    assert code == 0, err
    assert len(lines) == len(SENTENCES)
    for sentence, line in zip(SENTENCES, lines):
        if not sentence:
            assert line == ""
            continue
        expected = sentence.replace("(", "-LRB-").replace(")", "-RRB-")
        expected = expected.replace("\u00a0", "")
        assert " ".join(tree_words(read_tree(line))) == expected


def test_scores_are_those_of_the_trees_written(trained, evaluator, tmp_path):
    shutil.copytree(trained[0] / "m", tmp_path / "m")
    arguments = "--model_dir=m", "--split=dev", "--unconstrained"
    done = evaluator.run(*arguments, "--output=out", folder=tmp_path)
    assert done.code == 0, done.err
    gold = list(read_trees(trained[0] / "t.dev.ptb"))
    expected = score_brackets(list(read_trees(tmp_path / "out")), gold)
    assert expected.lines[0] in done.out
    (record,) = json.loads((tmp_path / "m" / "scores.json").read_text())
    assert record["score"] == round(expected.overall.f1, 4)
    assert record["split"] == "dev"
    assert record["sentences"] == DEV
    broken = record["broken_without_grammar"]
    assert f"Without the grammar {broken} of {DEV} outputs" in done.out
    # Of the same weights and trees, while they were trained.
    measured = re.search(r"^step 6: dev .*, F1 ([\d.]+)$", trained[1].out, re.M)
    assert measured[1] == f"{expected.overall.f1:.2f}"


def test_what_would_be_broken_is_counted(trained):
    """Against answers by hand, to sentences of the same words."""
    symbols = SymbolVocabulary.from_trees(read_trees(f"{PREFIX}.train.ptb"))
    right = ["(S", "(NP", "DT", "NN", ")NP", ")S"]
    answers = [
        right,
        right[:-1],
        ["(S", "(NP", "DT", "NN", ")S", ")NP"],
        ["(S", "(NP", "DT", ")NP", ")S"],
        ["(S", "DT", "NN", "NN", ")S"],
        ["(S", "DT", "NN", "(NP", ")NP", ")S"],
        ["(S", "DT", ")S", "(S", "NN", ")S"],
        [*right, *right],
        ["(NP", "DT", "NN", ")NP"],
        [],
    ]
    rows = [[*symbols.encode(answer), 3] for answer in answers]
    # Without an end, and with an id of no symbol.
    rows += [symbols.encode(right), [4, 1, 3]]

    class Saying:
        """Stands in for the search."""

        def search(self, source):
            return SearchOutput(tf.constant(pad_ids(rows))[:, None], None)

    broken = count_broken(
        Saying(), ModelDirectory(trained[0] / "m"), [["a", "cell"]] * len(rows)
    )
    assert broken == len(rows) - 2


def _other_trees(folder):
    """Trees with a label that the model has not; of three splits."""
    lines = (PREFIX.parent / "craft.dev.ptb").read_text().splitlines()
    odd = "(S (ODD (NN cell)))"
    splits = {"train": [odd, *lines[:9]], "dev": lines[9:12], "test": [odd]}
    for name, trees in splits.items():
        (folder / f"o.{name}.ptb").write_text("\n".join(trees) + "\n")
    return "--dataset=trees:o"


@pytest.mark.slow
def test_a_parser_begins_with_another_and_its_symbols(trained, tmp_path):
    """And the test split, which there is here, is scored at the end."""
    arguments = (
        *TINY,
        "--model_dir=n",
        _other_trees(tmp_path),
        f"--init_from={trained[0] / 'm'}",
        "--train_steps=1",
    )
    result = _run("trainers.parsing", *arguments, folder=tmp_path)
    theirs, ours = (
        (folder / "symbols.json").read_bytes()
        for folder in (trained[0] / "m", tmp_path / "n")
    )
    assert theirs == ours
    assert "Pairs of train skipped in training and perplexity: 1" in result.out
    assert "Training a vocabulary" not in result.out
    (record,) = json.loads((tmp_path / "n" / "scores.json").read_text())
    assert (record["split"], record["sentences"]) == ("test", 1)
    # Of one bracket in another the inner one cannot be right.
    assert record["all"]["gold"] == 2
    assert record["all"]["matched"] < 2


def test_what_does_not_fit_is_refused(trained, worker, tmp_path):
    cipher.write(tmp_path)
    parser, translator = trained[0] / "m", tmp_path / "t"
    tiny.write(translator)
    text = (
        "--dataset=text:toy",
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )
    before = {*tmp_path.iterdir()}
    # A parser is not a translation model, and the other way round.
    train = "trainers.parsing"
    for result, message in (
        (_run(train, *TINY, *text, folder=tmp_path, code=2), "text.*trees"),
        (
            _run(
                *(train, *TINY, f"--init_from={translator}"),
                folder=tmp_path,
                code=2,
            ),
            "pars",
        ),
        (worker.wmt(f"--init_from={parser}", folder=tmp_path), "pars"),
    ):
        commands.assert_one_clear_line(result, message)
        assert {*tmp_path.iterdir()} == before
    for module, model, message in (
        ("export.parse", translator, "pars"),
        ("export.translate", parser, "source_vocabulary_size"),
    ):
        code, _, (line,) = export_commands.run(module, model, [])
        assert code == 2
        assert line.startswith("Error: ") and message in line
