"""A parser's export, from a process that knows nothing but the server."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from export.errors import InputError
from export.model_directory import ModelDirectory
from export.parsing.parser import Parser
from export.parsing.trees import read_tree, words
from export.server_runtime.saved_model import (
    foreign_operations,
    read_description,
)
from export.serving.comparison import Comparison, ParserAnswers
from export.serving.model_answers import parses
from export.translators.load import load_translator
from tests.export import saved_model_runs, tiny
from tests.export.parsing import tiny_parser
from tests.export.server import Refused

MOST = 128
TEXTS = [
    *tiny_parser.sentences(12),
    "",
    " \t\n",
    "\u3000",
    "x",
    "( one\u00a0two )",
    "a\x00b \U0001f600 \\",
    "the " * 100,
]


@pytest.fixture(scope="module")
def parser_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser")
    tiny_parser.write(path)
    return path


@pytest.fixture(scope="module")
def parser(parser_path):
    return Parser.from_directory(parser_path, batch_tokens=256)


@pytest.fixture(scope="module")
def export(other_process, parser_path):
    """Runs the export's command; returns the InputError's message or None."""

    def exported_to(path, *arguments):
        printed, message = other_process(
            saved_model_runs.run,
            f"--model_dir={parser_path}",
            f"--export_dir={path}",
            *arguments,
        )
        assert message or "-v" in printed and ":/models/parser" in printed
        return message

    return exported_to


@pytest.fixture(scope="module")
def exported(export, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "e"
    assert export(path, "--nocheck", f"--max_source_tokens={MOST}") is None
    return path / "1"


@pytest.fixture(scope="module")
def expected(parser):
    return json.loads(json.dumps(parses(parser, TEXTS)))


@pytest.fixture
def ask(server, exported):
    return lambda signature, text: server.run(exported, signature, text=text)


def test_the_best_trees_are_the_parsers(ask, expected):
    answer = ask("serving_default", TEXTS)
    assert answer.arrays.keys() == {"tree", "score"}
    trees, scores = zip(*expected["best"])
    assert answer.texts("tree") == list(trees)
    np.testing.assert_allclose(answer.arrays["score"], scores, atol=1e-4)
    assert answer.texts("tree")[12:15] == ["", "", ""]
    assert answer.arrays["score"][12:15].tolist() == [0, 0, 0]
    assert "-LRB-) " in answer.texts("tree")[16]


def test_all_trees_are_the_parsers(ask, expected, parser):
    answer = ask("n_best", TEXTS).arrays
    assert answer.keys() == {"trees", "scores"}
    rows = zip(answer["trees"], answer["scores"], expected["n_best"])
    for trees, scores, found in rows:
        missing = parser.beam_size - len(found)
        right = [*found, *[("", -1e9)] * missing]
        assert [tree.decode() for tree in trees] == [text for text, _ in right]
        np.testing.assert_allclose(scores, [s for _, s in right], atol=1e-4)


def test_an_answer_does_not_depend_on_its_batch(ask):
    together = ask("serving_default", TEXTS).arrays
    for number in (0, 7, 12, 15, 18):
        alone = ask("serving_default", [TEXTS[number]]).arrays
        assert alone["tree"][0] == together["tree"][number]
        score = together["score"][number]
        np.testing.assert_allclose(alone["score"][0], score, atol=1e-4)


def test_empty_batches_have_empty_answers(ask, parser):
    for text in ([], [""]):
        for signature in ("serving_default", "n_best"):
            arrays = ask(signature, text).arrays.values()
            assert {len(array) for array in arrays} == {len(text)}
    assert ask("n_best", []).arrays["trees"].shape == (0, parser.beam_size)


def test_bytes_that_are_not_utf8_are_read_as_the_replacement(ask):
    found = ask("serving_default", [b"a \xff .", "a \ufffd ."]).texts("tree")
    assert found[0] == found[1]
    assert "\ufffd)" in found[0]


@pytest.mark.parametrize(
    "text, fits",
    [
        # A tree needs three symbols beside the tags.
        ("the " * (MOST - 3), True),
        ("the " * (MOST - 2), False),
        # Unknown characters in a row are one piece.
        ("\U0001f600" * 64 * MOST, True),
        ("\U0001f600" * (64 * MOST + 1), False),
    ],
)
def test_no_sentence_is_cut_and_too_long_ones_are_named(ask, text, fits):
    if fits:
        (tree,) = ask("serving_default", [text]).texts("tree")
        assert words(read_tree(tree)) == text.split()
        return
    with pytest.raises(Refused) as caught:
        ask("serving_default", ["one", text, "two"])
    code, message = caught.value.args
    assert code == "INVALID_ARGUMENT"
    assert f"more than the {MOST} pieces" in message
    assert "[1]" in message
    assert ask("serving_default", ["one"]).texts("tree") != [""]


def test_the_export_says_what_it_is(exported, parser_path):
    assert sorted(path.name for path in exported.glob("assets.extra/*")) == [
        "parser.json",
        "tf_serving_warmup_requests",
    ]
    found = read_description(exported)
    assert found["limits"] == {
        "beam_size": 4,
        "alpha": 0.6,
        "max_source_tokens": MOST,
    }
    assert found["vocabulary"]["size"] == 300
    assert found["signatures"].keys() == {"serving_default", "n_best"}
    config = json.loads((parser_path / "config.json").read_text())
    assert found["configuration"] == config


def test_a_stock_server_has_every_operation(exported):
    assert foreign_operations(exported) == []


@pytest.fixture
def compared(ask, expected, exported, parser_path):
    """Compares answers after a change of one array."""
    vocabulary = ModelDirectory(parser_path).read_vocabulary()
    limits = read_description(exported)["limits"]
    answers = ParserAnswers(vocabulary, TEXTS, expected, limits)

    def compared_after(signature, name, place, change):
        inputs = answers.inputs(signature, 1, len(TEXTS))
        outputs = dict(ask(signature, inputs["text"]).arrays)
        outputs[name] = outputs[name].copy()
        outputs[name][place] = change(outputs[name][place])
        found = Comparison()
        answers.compare(signature, 1, outputs, found)
        return found

    return compared_after


@pytest.mark.parametrize(
    "signature, tree, score, place",
    [
        ("serving_default", "tree", "score", 3),
        ("n_best", "trees", "scores", (3, 2)),
    ],
)
def test_other_answers_are_told(compared, signature, tree, score, place):
    same = compared(signature, tree, place, lambda text: text)
    assert (same.texts, same.equal, same.first) == (18, 18, None)
    other = compared(signature, tree, place, lambda text: text + b")")
    assert other.equal == 17 and repr(TEXTS[4]) in other.first
    other = compared(signature, score, place, lambda score: score + 0.01)
    assert other.equal == 18 and repr(TEXTS[4]) in other.first


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--stop=finished", "--stop is of translations"),
        ("--max_output_extra=9", "--max_output_extra is of translations"),
        ("--target_pieces=x", "--target_pieces is of translations"),
        ("--shortlist=x", "--shortlist is of translations"),
        ("--max_source_tokens=63", "give 64 at least"),
    ],
)
def test_what_a_parser_has_not_is_refused(export, tmp_path, argument, message):
    assert message in export(tmp_path / "e", argument)
    assert not (tmp_path / "e").exists()


def test_a_translators_commands_refuse_it(exported):
    with pytest.raises(InputError, match="the export of a parser"):
        load_translator([exported.parent], 64, {})
    with pytest.raises(InputError, match="is an export.*the model directory"):
        Parser.from_directory(exported)


def check(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "export.check", *map(str, arguments)],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_translators_directory_is_none_of_a_parsers(exported, tmp_path):
    (tmp_path / "vocabulary.model").touch()
    done = check(exported, f"--model_dir={tmp_path}")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"Error: {exported} is the export of a parser, and {tmp_path} holds "
        "none; give the model directory that it was made from."
    )


@pytest.mark.slow
def test_the_check_knows_its_model_from_another(export, parser_path, tmp_path):
    assert export(tmp_path / "e", "--beam_size=3", "--alpha=1") is None
    other = tmp_path / "m"
    shutil.copytree(parser_path, other)
    directory = ModelDirectory(other)
    model = directory.load_model()
    model.weights[-1].assign(model.weights[-1] * 1.5)
    directory.write_weights(model)
    done = check(tmp_path / "e", f"--model_dir={other}")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "does not answer as the model directory does" in last
