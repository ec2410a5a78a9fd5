"""The picture for papers, read back from its XML."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from export.attention_views.rendering import COLORS, DASHES, attention_svg
from export.attention_views.view import AttentionView
from export.attention_views.word_attention import SentenceAttention
from tests.export import tiny
from tests.export.attention_views import attended

NAME = "{http://www.w3.org/2000/svg}"
TEXT = "It was too <b>tired</b> & \u201cold\u201d."
TRANSLATION = "C'était trop fatigué \x01 \U0001f600 \u05e9\u05dc\u05d5\u05dd."


@pytest.fixture(scope="module")
def maps():
    return attended.maps(TEXT, TRANSLATION, heads=10)


def drawn(maps, view):
    return ET.fromstring(attention_svg(SentenceAttention(maps), view))


def lines(svg, rows):
    """Returns {(color, dashes): {(row, column): opacity}}."""
    texts = [float(each.get("y")) for each in svg.iter(f"{NAME}text")]
    columns, rows = texts[rows:-1], texts[:rows]
    found = {}
    for group in svg.findall(f"{NAME}g[@fill='none']"):
        look = group.get("stroke"), group.get("stroke-dasharray")
        found[look] = {}
        for path in group:
            numbers = re.findall(r"[\d.]+", path.get("d"))
            place = tuple(
                int(np.argmin(np.abs(np.array(ys) - 5 - float(y))))
                for ys, y in zip((rows, columns), (numbers[1], numbers[-1]))
            )
            found[look][place] = float(path.get("stroke-opacity"))
    return found


def test_its_lines_are_the_weights(maps):
    view = AttentionView("cross", 1, (0, 3, 9), "pieces")
    found = lines(drawn(maps, view), len(maps.target_tokens))
    # Head 9 repeats a color, with dashes.
    assert [*found] == [
        *((COLORS[0], None), (COLORS[3], None), (COLORS[1], DASHES[1]))
    ]
    for head, of_head in zip(view.heads, found.values()):
        for place, weight in np.ndenumerate(maps.cross[1, head]):
            expected = weight if weight >= 0.02 else 0
            assert of_head.pop(place, 0) == pytest.approx(expected, abs=1e-3)
        assert of_head == {}


def test_a_view_of_one_word_has_its_lines_alone(maps):
    view = AttentionView("encoder", 2, (1,), "words", word=2)
    weights = attended.by_words(maps, "encoder")[2, 1, 2]
    [found] = lines(drawn(maps, view), len(weights)).values()
    assert {row for row, _ in found} == {2}
    for (_, column), opacity in found.items():
        assert opacity**2 == pytest.approx(weights[column], abs=2e-3)
    assert len(found) == (weights >= 0.01).sum()


def test_text_stays_text(maps):
    svg = drawn(maps, AttentionView("cross", 0, (0,)))
    texts = [each.text for each in svg.iter(f"{NAME}text")]
    target = TRANSLATION.replace("\x01", "\ufffd").split()
    assert texts[: len(target)] == target
    assert "<b>tired</b>" in texts


def test_the_page_has_the_same_colors():
    css = tiny.ROOT / "export" / "attention_views" / "page" / "page.css"
    found = re.findall(r"--head-\d: (#\w+);", css.read_text(encoding="utf-8"))
    assert tuple(found[: len(COLORS)]) == COLORS
