"""Draws one view of attention as an SVG picture for a paper."""

import numpy as np

from export.common.svg import (
    FONT_SIZE,
    add_element,
    create_picture,
    picture_to_string,
    text_width,
)

# The palette of Okabe and Ito, darker where white paper needs it, as in
# page/page.css. Further heads repeat the colours with dashes.
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#cf9a3a", "#449cff", "#643a00", "#1b1f24"),
)
DASHES = (None, "7 3", "2 3", "9 3 2 3")
KIND_NAMES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}

_ROW = 22
_GAP = 220
_MARGIN = 12
_LEGEND = 34
# Lines of smaller weights would only make the picture grey.
_MIN_WEIGHT = 0.02
_MIN_WEIGHT_OF_WORD = 0.01


def attention_svg(sentence, view):
    """Returns an SVG with two columns of tokens and a line for each weight.

    As in the paper's Figures 3 to 5, the colour of a line is the head and its
    strength the weight. Weights under 2 % are omitted; if a single word is
    shown, with stronger lines, those under 1 %. Text is text, black on a
    transparent ground.
    """
    part = sentence.part(view.unit, view.kind)
    left = _MARGIN + max(map(text_width, part.rows)) + 6
    right = left + _GAP
    width = right + 6 + max(map(text_width, part.columns)) + _MARGIN
    rows = max(len(part.rows), len(part.columns))
    height = 2 * _MARGIN + _ROW * rows + _LEGEND
    svg = create_picture(width, height)
    title = f"{KIND_NAMES[view.kind]}, layer {view.layer + 1}"
    add_element(svg, "title", {}, title)
    for lane, head in enumerate(view.heads):
        # Lines of different heads must not hide one another.
        lanes = len(view.heads)
        shift = _ROW * (lane - (lanes - 1) / 2) * min(0.14, 0.7 / lanes)
        weights = part.weights[view.layer, head]
        _add_lines(svg, weights, head, view.word, (left, right), shift)
    _add_tokens(svg, part.rows, left - 6, "end", view.word)
    _add_tokens(svg, part.columns, right + 6, "start", None)
    _add_legend(svg, title, view.heads, height - _MARGIN)
    return picture_to_string(svg)


def _add_lines(svg, weights, head, word, ends, shift):
    group = add_element(svg, "g", {"fill": "none", **_stroke(head)})
    left, right = ends
    bends = left + 0.4 * _GAP, right - 0.4 * _GAP
    min_weight = _MIN_WEIGHT if word is None else _MIN_WEIGHT_OF_WORD
    for row, column in np.argwhere(weights >= min_weight).tolist():
        if word not in (None, row):
            continue
        weight = float(weights[row, column])
        opacity, width = weight, 1 + weight
        if word is not None:
            opacity, width = weight**0.5, 1 + 3 * weight
        start, end = _middle(row) + shift, _middle(column) + shift
        curve = {
            "d": f"M{left:.1f} {start:.1f}C{bends[0]:.1f} {start:.1f} "
            f"{bends[1]:.1f} {end:.1f} {right:.1f} {end:.1f}",
            "stroke-opacity": f"{opacity:.3f}",
            "stroke-width": f"{width:.2f}",
        }
        add_element(group, "path", curve)


def _add_tokens(svg, tokens, x, anchor, word):
    group = add_element(svg, "g", {"text-anchor": anchor})
    for number, token in enumerate(tokens):
        y = _middle(number) + 0.35 * FONT_SIZE
        position = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        if number == word:
            position["font-weight"] = "bold"
        add_element(group, "text", position, token)


def _add_legend(svg, title, heads, y):
    legend = add_element(svg, "g", {"font-size": "11", "fill": "#444444"})
    position = {"x": f"{_MARGIN}", "y": f"{y - 16:.1f}"}
    add_element(legend, "text", position, f"{title}; heads:")
    for number, head in enumerate(heads):
        x = _MARGIN + 34 * number
        swatch = {"d": f"M{x} {y - 4:.1f}h14", "stroke-width": "3"}
        add_element(legend, "path", {**swatch, **_stroke(head)})
        position = {"x": f"{x + 17}", "y": f"{y:.1f}"}
        add_element(legend, "text", position, f"{head + 1}")


def _stroke(head):
    stroke = {"stroke": COLOURS[head % len(COLOURS)]}
    dashes = DASHES[head // len(COLOURS) % len(DASHES)]
    return stroke | ({"stroke-dasharray": dashes} if dashes else {})


def _middle(row):
    return _MARGIN + _ROW * (row + 0.5)
