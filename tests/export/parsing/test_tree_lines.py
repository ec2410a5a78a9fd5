"""Trees as lines of several formats."""

import pytest
from nltk.tree import Tree

from export.lines.formats import line_format
from export.parsing.parser import Parse
from export.parsing.tree_lines import drawn, indented_format, without_blank
from export.parsing.trees import read_tree, read_trees
from tests.export.parsing.made_trees import DEV

FIRST = read_tree("(S (NP (DT The) (NN cell)) (VP (VBZ divides)))")
SECOND = read_tree("(FRAG (DT The) (NN cell) (VBZ divides))")
FOUND = [Parse(FIRST, -0.25), Parse(SECOND, -1.5)]
BLANK = [Parse(None, 0.0)]
LINES = [str(FIRST), ""]


@pytest.mark.parametrize(
    "several, scores, expected",
    [
        (False, False, LINES),
        (False, True, ["-0.250000", *LINES]),
        (
            True,
            False,
            ["7 ||| -0.250000", *LINES, "7 ||| -1.500000", str(SECOND), ""],
        ),
    ],
)
def test_what_was_asked_for_stands_before_the_tree(several, scores, expected):
    form = indented_format(several, scores)
    assert form(7, FOUND) == expected
    # A blank line has all but the tree.
    assert form(7, BLANK) == [
        line.replace("-0.25", "0.00")
        for line in expected[: expected.index("") + 1]
        if line != str(FIRST)
    ]


def test_indented_trees_are_those_of_one_line():
    form = indented_format(False, False)
    for tree in read_trees(DEV):
        *lines, blank = form(0, [Parse(tree, 0.0)])
        assert blank == ""
        assert Tree.fromstring("\n".join(lines)) == tree
        for line in lines:
            # A word that stands deep may lie beyond the margin.
            assert len(line.rstrip(")")) < 79 or line.count("(") == 1
        for line in lines[1:]:
            assert line.startswith("  ")
            assert line.lstrip()[0] == "("


@pytest.mark.parametrize("form", [line_format, indented_format])
def test_blank_lines_may_be_left_out(form):
    form = form(False, False)
    assert without_blank(form)(3, FOUND) == form(3, FOUND)
    assert form(3, BLANK) == [""]
    assert without_blank(form)(3, BLANK) == []


def test_what_is_written_is_drawn_as_well():
    class Pictures:
        draw = staticmethod(lambda *given: seen.append(given))

    seen = []
    form = line_format(False, True)
    assert drawn(form, Pictures)(3, FOUND) == form(3, FOUND)
    assert seen == [(3, FOUND)]
