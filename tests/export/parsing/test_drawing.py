"""Trees as pictures."""

import itertools
import xml.etree.ElementTree as ET

import pytest

from export.common.errors import InputError
from export.common.svg import text_width
from export.parsing.drawing import Pictures, tree_svg
from export.parsing.parser import Parse
from export.parsing.trees import read_tree, read_trees, tags, visits, words
from tests.export.parsing.made_trees import DEV

SVG = "{http://www.w3.org/2000/svg}"
SMALL = "(TOP (S (NP (DT The) (NN cell)) (VP (VBZ divides))))"


def _texts(drawing):
    """Returns (text, x, y) of each."""
    return [
        (each.text, float(each.get("x")), float(each.get("y")))
        for each in ET.fromstring(drawing).iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("number", range(0, 40, 8))
def test_words_and_tags_stand_in_rows_and_apart(number):
    tree = list(read_trees(DEV))[number]
    drawing = tree_svg(tree)
    found = _texts(drawing)
    rows = {}
    for text, x, y in found:
        rows.setdefault(y, []).append((x, text))
    *brackets, its_tags, its_words = [
        [text for _, text in sorted(row)] for _, row in sorted(rows.items())
    ]
    assert its_words == words(tree)
    assert its_tags == tags(tree)
    labels = [node.label() for event, node in visits(tree) if event == "open"]
    assert sorted(itertools.chain(*brackets)) == sorted(labels)
    for row in rows.values():
        for (left, one), (right, other) in itertools.pairwise(sorted(row)):
            assert right - left > (text_width(one) + text_width(other)) / 2
    picture = ET.fromstring(drawing)
    assert picture.find(f"{SVG}title").text == " ".join(words(tree))
    width = float(picture.get("width"))
    assert all(0 < x < width for _, x, _ in found)


def test_a_bracket_is_over_the_middle_of_its_children():
    places = {text: (x, y) for text, x, y in _texts(tree_svg(read_tree(SMALL)))}
    middle = (places["DT"][0] + places["NN"][0]) / 2
    assert places["NP"][0] == pytest.approx(middle, abs=0.1)
    assert places["VP"][0] == places["VBZ"][0] == places["divides"][0]
    assert places["TOP"][1] < places["S"][1] < places["NP"][1]
    assert places["NP"][1] == places["VP"][1] < places["DT"][1]


def test_a_long_label_has_its_width():
    tree = read_tree("(S (VERYLONGLABEL (NN a)) (VERYLONGLABEL (NN b)))")
    left, right = [
        x for text, x, _ in _texts(tree_svg(tree)) if text == "VERYLONGLABEL"
    ]
    assert right - left > text_width("VERYLONGLABEL")


def test_any_character_can_be_drawn():
    tree = read_tree("(S (NN <&>\x01\ufffe\u0301) (NN \u65e5\U0001f600))")
    texts = [text for text, _, _ in _texts(tree_svg(tree))]
    assert "<&>\ufffd\ufffd\u0301" in texts
    assert "\u65e5\U0001f600" in texts


def test_pictures_are_named_by_line_and_tree(tmp_path):
    parse, blank = Parse(read_tree(SMALL), -1.0), Parse(None, 0.0)
    one, several = tmp_path / "new" / "one", tmp_path / "several"
    several.mkdir()
    for folder in (one, several):
        pictures = Pictures(folder, folder == several)
        pictures.draw(0, [parse, parse] if folder == several else [parse])
        pictures.draw(1, [blank])
        pictures.draw(11, [parse])
    assert sorted(path.name for path in one.iterdir()) == [
        "line-000001.svg",
        "line-000012.svg",
    ]
    assert sorted(path.name for path in several.iterdir()) == [
        "line-000001-tree-1.svg",
        "line-000001-tree-2.svg",
        "line-000012-tree-1.svg",
    ]
    assert (several / "line-000012-tree-1.svg").read_text("utf-8") == tree_svg(
        parse.tree
    )


def test_a_folder_that_holds_something_is_refused(tmp_path):
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(InputError, match="holds files already"):
        Pictures(tmp_path, several=False)
    with pytest.raises(InputError, match="cannot be a folder of pictures"):
        Pictures(path, several=False)
    assert path.read_text() == "mine"
