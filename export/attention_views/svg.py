"""Draws one view of attention as an SVG picture for a paper."""

import re
import unicodedata
import xml.etree.ElementTree as ET

# After Okabe and Ito's, darker where white paper needs it; the same stand in
# page/page.css. Further heads repeat them, dashed.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#cf9a3a",
    "#449cff",
    "#643a00",
    "#1b1f24",
)
DASHES = (None, "7 3", "2 3", "9 3 2 3")
KIND_NAMES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}

_ROW = 22
_LETTER = 14
_GAP = 220
_MARGIN = 12
_LEGEND = 34
# Weaker lines would only grey the picture.
_LEAST_OF_ALL = 0.02
_LEAST_OF_WORD = 0.01
# What XML 1.0 cannot hold.
_NOT_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def attention_svg(sentence, view):
    """Draws two columns of tokens and a line for each weight.

    As in the paper's Figures 3 to 5, a colour is a head and the strength of
    a line is the weight. Weights under 2 % are left out, and of the lines of
    one word, which are stronger, those under 1 %.

    Args:
        sentence: AttendedSentence.
        view: AttentionView.

    Returns:
        The SVG as str, with text as text, black on a transparent ground.
    """
    part = sentence.part(view.unit, view.kind)
    left = _MARGIN + max(map(_width, part.rows)) + 6
    right = left + _GAP
    width = right + 6 + max(map(_width, part.columns)) + _MARGIN
    height = (
        2 * _MARGIN + _ROW * max(len(part.rows), len(part.columns)) + _LEGEND
    )
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "font-family": "Helvetica, Arial, sans-serif",
            "font-size": f"{_LETTER}",
        },
    )
    title = f"{KIND_NAMES[view.kind]}, layer {view.layer + 1}"
    _add(svg, "title", {}, title)
    for lane, head in enumerate(view.heads):
        shift = _shift(lane, len(view.heads))
        weights = part.weights[view.layer, head]
        _add_lines(svg, weights, head, view.word, (left, right), shift)
    _add_tokens(svg, part.rows, left - 6, "end", view.word)
    _add_tokens(svg, part.columns, right + 6, "start", None)
    _add_legend(svg, title, view.heads, height)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _add_lines(svg, weights, head, word, ends, shift):
    group = _add(svg, "g", {"fill": "none", **_look(head)})
    bend = 0.4 * _GAP
    left, right = ends
    rows = range(len(weights)) if word is None else [word]
    least = _LEAST_OF_ALL if word is None else _LEAST_OF_WORD
    for row in rows:
        for column, weight in enumerate(weights[row].tolist()):
            if weight < least:
                continue
            start, end = _middle(row) + shift, _middle(column) + shift
            curve = (
                f"M{left:.1f} {start:.1f}C{left + bend:.1f} {start:.1f} "
                f"{right - bend:.1f} {end:.1f} {right:.1f} {end:.1f}"
            )
            _add(group, "path", {"d": curve, **_stroke(weight, word)})


def _stroke(weight, word):
    if word is None:
        opacity, width = weight, 1 + weight
    else:
        opacity, width = weight**0.5, 1 + 3 * weight
    return {"stroke-opacity": f"{opacity:.3f}", "stroke-width": f"{width:.2f}"}


def _add_tokens(svg, tokens, x, anchor, word):
    group = _add(svg, "g", {"text-anchor": anchor})
    for number, token in enumerate(tokens):
        y = _middle(number) + 0.35 * _LETTER
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        if number == word:
            place["font-weight"] = "bold"
        _add(group, "text", place, token)


def _add_legend(svg, title, heads, height):
    y = height - _MARGIN
    small = {"font-size": "11", "fill": "#444444"}
    legend = _add(svg, "g", small)
    _add(
        legend,
        "text",
        {"x": f"{_MARGIN}", "y": f"{y - 16:.1f}"},
        f"{title}; heads:",
    )
    for place, head in enumerate(heads):
        x = _MARGIN + 34 * place
        swatch = {"d": f"M{x} {y - 4:.1f}h14", "stroke-width": "3"}
        _add(legend, "path", {**swatch, **_look(head)})
        number = {"x": f"{x + 17}", "y": f"{y:.1f}"}
        _add(legend, "text", number, f"{head + 1}")


def _look(head):
    look = {"stroke": COLOURS[head % len(COLOURS)]}
    dashes = DASHES[head // len(COLOURS) % len(DASHES)]
    return look | ({"stroke-dasharray": dashes} if dashes else {})


def _middle(row):
    return _MARGIN + _ROW * (row + 0.5)


def _shift(lane, lanes):
    """Heads run beside each other, so that none hides another."""
    return _ROW * (lane - (lanes - 1) / 2) * min(0.14, 0.7 / lanes)


def _width(token):
    """About as wide as the token is; its font is the reader's."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in token)
    return _LETTER * (0.6 * (len(token) - wide) + 1.05 * wide)


def _add(parent, name, attributes, text=None):
    made = ET.SubElement(parent, name, attributes)
    if text is not None:
        made.text = _NOT_XML.sub("\ufffd", text)
    return made
