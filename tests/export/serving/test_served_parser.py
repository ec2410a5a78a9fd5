"""A parser's export, from a process that knows nothing but the server."""

import numpy as np
import pytest

from export.common.errors import InputError
from export.loading import load_translator
from export.parsing.parser import Parser
from export.parsing.trees import read_tree, tree_words
from export.serving.export_directory import read_description
from export.serving.session import (
    read_meta_graph,
    unsupported_operations,
)
from tests.export import commands
from tests.export.parsing import tiny_parser
from tests.export.server import Refused
from tests.export.serving.test_check import check

MOST = 96
TEXTS = [
    *[s for s in tiny_parser.sentences(99) if len(s.split()) < 12][:6],
    "",
    " \t\n",
    "\u3000",
    "x",
    "( one\u00a0two )",
    "a\x00b \U0001f600 \\ \ufffd",
    "the " * 40,
]


BEAM = 4


@pytest.fixture(scope="module")
def parser_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser")
    tiny_parser.write(path)
    return path


@pytest.fixture(scope="module")
def export(parser_path):
    """Runs the export's command; returns the InputError's message or None."""

    def exported_to(path, *arguments):
        code, lines, err = commands.run(
            *("export.saved_model", None, [], f"--model_dir={parser_path}"),
            *(f"--export_dir={path}", *arguments),
        )
        assert err or "/models/parser" in "".join(lines)
        assert code == (2 if err else 0)
        return err[-1] if err else None

    return exported_to


@pytest.fixture(scope="module")
def exported(export, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "e"
    assert export(path, "--nocheck", f"--max_source_tokens={MOST}") is None
    return path / "1"


@pytest.fixture
def ask(server, exported):
    return lambda signature, text: server.run(exported, signature, text=text)


def test_trees_are_the_parsers(ask, parser_path):
    parser = Parser.from_directory(parser_path, batch_tokens=256)
    n_best = ask("n_best", TEXTS)
    best = ask("serving_default", TEXTS)
    rows = parser.parse(TEXTS, BEAM)
    for index, parses in enumerate(rows):
        missing = BEAM - len(parses)
        trees = [tree.decode() for tree in n_best.arrays["trees"][index]]
        assert trees == [each.text for each in parses] + [""] * missing
        np.testing.assert_allclose(
            n_best.arrays["scores"][index],
            [each.score for each in parses] + [-1e9] * missing,
            atol=1e-4,
        )
        assert best.texts("tree")[index] == trees[0]
    np.testing.assert_allclose(
        best.arrays["score"], n_best.arrays["scores"][:, 0], atol=1e-4
    )


def test_an_answer_does_not_depend_on_its_batch(ask):
    together = ask("serving_default", TEXTS).arrays
    for number in (0, 5, 6, 12):
        alone = ask("serving_default", [TEXTS[number]]).arrays
        assert alone["tree"][0] == together["tree"][number]
        score = together["score"][number]
        np.testing.assert_allclose(alone["score"][0], score, atol=1e-4)
    assert ask("n_best", []).arrays["trees"].shape == (0, BEAM)


def test_no_sentence_is_truncated_and_too_long_ones_are_named(ask):
    for text, fits in (
        # A tree needs three symbols beside the tags.
        ("the " * (MOST - 3), True),
        ("the " * (MOST - 2), False),
        # Unknown characters in a row are one piece.
        ("\U0001f600" * (64 * MOST + 1), False),
    ):
        if fits:
            (tree,) = ask("serving_default", [text]).texts("tree")
            assert tree_words(read_tree(tree)) == text.split()
            continue
        with pytest.raises(Refused) as caught:
            ask("serving_default", ["one", text, "two"])
        assert f"at most {MOST} tokens" in str(caught.value)
        assert "[1]" in str(caught.value)


def test_the_export_says_what_it_is(exported):
    found = read_description(exported)
    assert found["limits"] == {
        "beam_size": 4,
        "alpha": 0.6,
        "max_source_tokens": MOST,
    }
    assert found["signatures"] == ["n_best", "serving_default"]
    assert unsupported_operations(read_meta_graph(exported)) == []


def test_what_a_parser_lacks_is_refused(export, tmp_path):
    for argument in (
        "--stop_criterion=k_finished",
        "--shortlist=x",
        "--max_source_tokens=63",
    ):
        assert argument.split("=")[0] in export(tmp_path / "e", argument)
        assert not (tmp_path / "e").exists()


def test_commands_for_translators_refuse_it(exported, tmp_path):
    with pytest.raises(InputError, match="parser"):
        load_translator(exported.parent)
    with pytest.raises(InputError, match="not an export"):
        Parser.from_directory(exported)
    (tmp_path / "vocabulary.model").touch()
    message = check(exported, f"--model_dir={tmp_path}")[1]
    assert str(exported) in message and str(tmp_path) in message
