"""Reranking by chrF, compared with sacreBLEU, and by a command."""

import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.translators.reranking import (
    expected_chrf,
    rerank_by_command,
    rerank_by_mbr,
)
from export.translators.translation import Translation
from tests import made_up_text
from tests.export import commands

TEXTS = st.lists(st.text("ab éc.", max_size=12), min_size=1, max_size=6)


@settings(max_examples=60)
@given(TEXTS)
def test_utilities_are_sacrebleus(texts):
    metric = sacrebleu.CHRF()
    expected = [
        np.mean([metric.sentence_score(text, [o]).score for o in texts]) / 100
        for text in texts
    ]
    np.testing.assert_allclose(expected_chrf(texts), expected, atol=1e-9)


def translations(*texts):
    return [Translation(text, -index) for index, text in enumerate(texts)]


def test_the_translation_most_like_the_others_wins():
    row = translations("a dog", "red house", *3 * ["the cat"])
    ((best, *others),) = rerank_by_mbr(["x"], [row])
    # Of the two equal ones the first.
    assert best is row[2]
    assert {*map(id, others)} == {id(each) for each in row if each is not best}
    assert rerank_by_mbr(["x", ""], [row[:1], translations("")])[0] == row[:1]


def test_a_command_scores_each_line(tmp_path):
    script = tmp_path / "length.py"
    script.write_text(
        "import sys\n"
        "for line in sys.stdin:\n"
        "    source, text = line.rstrip('\\n').split('\\t')\n"
        "    print(len(text) - len(source))\n"
    )
    rerank = rerank_by_command(f"{sys.executable} {script}")
    rows = [translations("b", "bb\tb", "b b"), translations("")]
    found = rerank(["a\nb", ""], rows)
    assert [each.text for each in found[0]] == ["bb\tb", "b b", "b"]
    assert found[1] == rows[1]


@pytest.mark.parametrize("program", ["1/0", "print(5)", "print('x ' * 2)"])
def test_a_command_that_fails_is_an_error(program):
    for command in (f'{sys.executable} -c "{program}"', "no-such-program"):
        with pytest.raises(InputError, match="rerank_command"):
            rerank_by_command(command)(["a"], [translations("b", "c")])


def test_commands_choose_among_all(model_path):
    lines = made_up_text.sentences()[:2]
    run = ("export.translate", model_path, lines)
    _, plain, _ = commands.run(*run, "--n_best=4", "--beam_size=4")
    code, found, err = commands.run(*run, "--rerank=mbr", "--beam_size=4")
    assert code == 0, err
    candidates = [line.split(" ||| ")[1] for line in plain]
    for text, row in zip(found, (candidates[:4], candidates[4:]), strict=True):
        assert expected_chrf(row)[row.index(text)] == expected_chrf(row).max()
    flags = "--samples=5", "--rerank=mbr"
    code, found, err = commands.run("export.sample", *run[1:], *flags)
    assert (code, len(found)) == (0, 2), err
    for flags in (["--document"], ["--alignments"], ["--rerank_command=true"]):
        code, found, err = commands.run(*run, "--rerank=mbr", *flags)
        assert code
        assert not found
        assert "rerank" in err[-1]
