"""Output formats of trees: indented lines and pictures."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from nltk.tree import Tree

from export.common.errors import InputError
from export.common.svg import text_width
from export.lines.streams import line_format
from export.parsing.parser import Parse
from export.parsing.tree_formats import draw_tree, tree_format
from export.parsing.trees import read_tree, read_trees
from tests.export.parsing.made_trees import DEV

SVG = "{http://www.w3.org/2000/svg}"
FIRST = read_tree("(S (NP (DT The) (NN cell)) (VP (VBZ divides)))")
SECOND = read_tree("(FRAG (DT The) (NN cell) (VBZ divides))")
PARSES = [Parse(FIRST, -0.25), Parse(SECOND, -1.5)]
BLANK = [Parse(None, 0.0)]
LINES = [str(FIRST), ""]


def form(several=False, scores=False, pretty=True, skip=False, pictures=None):
    return tree_format(1 + several, scores, pretty, skip, pictures)


@pytest.mark.parametrize(
    "several, scores, expected, blank",
    [
        (False, False, LINES, [""]),
        (False, True, ["-0.250000", *LINES], ["0.000000", ""]),
        (
            True,
            False,
            ["7 ||| -0.250000", *LINES, "7 ||| -1.500000", str(SECOND), ""],
            ["7 ||| 0.000000", ""],
        ),
    ],
)
def test_scores_stand_before_indented_trees(several, scores, expected, blank):
    assert form(several, scores)(7, PARSES) == expected
    assert form(several, scores)(7, BLANK) == blank
    assert form(several, scores, skip=True)(7, BLANK) == []
    plain = form(several, scores, pretty=False)(7, PARSES)
    assert plain == line_format(several, scores)(7, PARSES)


def test_indented_trees_equal_those_of_one_line():
    for tree in itertools.islice(read_trees(DEV), 20):
        *lines, blank = form()(0, [Parse(tree, 0.0)])
        assert blank == ""
        assert Tree.fromstring("\n".join(lines)) == tree
        for line in lines:
            # A deeply nested word may lie beyond the margin.
            assert len(line.rstrip(")")) < 79 or line.count("(") == 1


def test_pictures_are_named_by_line_and_tree(tmp_path):
    names = []
    for several in (False, True):
        folder = tmp_path / f"{several}" / "new"
        draw = form(several, pictures=folder)
        for number, parses in ((0, PARSES), (1, BLANK), (11, PARSES[:1])):
            parses = parses if several else parses[:1]
            assert draw(number, parses) == form(several)(number, parses)
        names += sorted(path.stem for path in folder.iterdir())
        with pytest.raises(InputError):
            form(pictures=folder)
    assert names == [
        *("line-000001", "line-000012", "line-000001-tree-1"),
        *("line-000001-tree-2", "line-000012-tree-1"),
    ]
    picture = folder / "line-000012-tree-1.svg"
    assert picture.read_text("utf-8") == draw_tree(FIRST)


def _texts(drawing):
    """Returns (text, x, y) of each."""
    return [
        (each.text, float(each.get("x")), float(each.get("y")))
        for each in ET.fromstring(drawing).iter(f"{SVG}text")
    ]


def test_words_and_tags_stand_in_rows_without_overlap():
    tree = list(read_trees(DEV))[24]
    drawing = draw_tree(tree)
    rows = {}
    for text, x, y in _texts(drawing):
        rows.setdefault(y, []).append((x, text))
    *labels, tags, words = [
        [text for _, text in sorted(row)] for _, row in sorted(rows.items())
    ]
    assert [*zip(words, tags)] == tree.pos()
    brackets = tree.subtrees(lambda node: node.height() > 2)
    assert sorted(itertools.chain(*labels)) == sorted(
        node.label() for node in brackets
    )
    width = float(ET.fromstring(drawing).get("width"))
    for row in rows.values():
        assert all(0 < x < width for x, _ in row)
        for (left, one), (right, other) in itertools.pairwise(sorted(row)):
            assert right - left > (text_width(one) + text_width(other)) / 2
