"""Shows attention as a self-contained HTML page or an SVG picture."""

import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import zlib

import numpy as np

from export.attention_views.word_attention import KINDS, UNITS
from export.common.svg import (
    FONT_SIZE,
    add_element,
    create_picture,
    picture_to_string,
    text_width,
)

# Stands for a weight of 1; compresses to half the size of 16 bits.
WEIGHT_SCALE = 4095

_FOLDER = pathlib.Path(__file__).with_name("page")
# The script is these files, joined in this order.
_SCRIPTS = (
    *("maps.js", "elements.js", "lines.js", "matrix.js"),
    *("word.js", "controls.js", "words.js", "page.js"),
)

# The palette of Okabe and Ito, darker where white paper needs it, as in
# page/page.css. Further heads repeat the colors with dashes.
COLORS = (
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


def attention_html(sentence, view, texts, views=()):
    """Returns a self-contained HTML page of a SentenceAttention.

    The page opens with `view`, and has a button for each pair of a name and an
    AttentionView in `views`. `texts` is a dict of the texts above the picture:
    `about` the model, `translation_term`, the heading of the translation, and
    `note`, which may be "". The content security policy allows the page's own
    style and script only, and no network. Text is embedded as data, never as
    markup.
    """
    style = _read("page.css")
    script = "\n".join(map(_read, _SCRIPTS))
    data = json.dumps(_page_data(sentence, view, texts, views), allow_nan=False)
    parts = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        # "<" could end the HTML element that holds the data.
        "data": data.replace("<", "\\u003c"),
    }
    # In one pass, so that inserted text is not searched for placeholders.
    return re.sub(
        r"\{\{(\w+)\}\}",
        lambda placeholder: parts[placeholder[1]],
        _read("template.html"),
    )


def round_rows(weights):
    """Rounds rows that sum to 1, float [..., K], to uint16 that sum to 4095.

    Rounding each weight by itself would let the sums of long rows drift.
    """
    weights = np.asarray(weights, np.float64)
    exact = WEIGHT_SCALE * weights / weights.sum(axis=-1, keepdims=True)
    sums = np.rint(np.cumsum(exact, axis=-1))
    return np.diff(sums, axis=-1, prepend=0).astype(np.uint16)


def _read(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _page_data(sentence, view, texts, views):
    units, weights = {}, []
    for unit in UNITS:
        units[unit] = {}
        for kind in KINDS:
            part = sentence.part(unit, kind)
            units[unit][kind] = {"from": part.rows, "to": part.columns}
            weights.append(round_rows(part.weights).astype("<u2").tobytes())
    return {
        **texts,
        "source": sentence.maps.text,
        "translation": sentence.maps.translation,
        "layers": sentence.layers,
        "heads": sentence.heads,
        "units": units,
        # In the order of `units`: base64 of deflated little-endian uint16.
        "weights": base64.b64encode(zlib.compress(b"".join(weights))).decode(),
        "view": _view_data(view),
        "views": [
            {"name": name, "view": _view_data(each)} for name, each in views
        ],
    }


def _view_data(view):
    data = dataclasses.asdict(view)
    if view.word is not None:
        data["word"] = {"side": "from", "index": view.word}
    return data


def attention_svg(sentence, view):
    """Returns an SVG with two columns of tokens and a line for each weight.

    As in the paper's Figures 3 to 5, the color of a line is the head and its
    strength the weight; small weights are omitted.
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
        # The lines of a single word are stronger.
        opacity = weight if word is None else weight**0.5
        start, end = _row_center_y(row) + shift, _row_center_y(column) + shift
        curve = {
            "d": f"M{left:.1f} {start:.1f}C{bends[0]:.1f} {start:.1f} "
            f"{bends[1]:.1f} {end:.1f} {right:.1f} {end:.1f}",
            "stroke-opacity": f"{opacity:.3f}",
            "stroke-width": f"{1 + 2 * weight:.2f}",
        }
        add_element(group, "path", curve)


def _add_tokens(svg, tokens, x, anchor, word):
    group = add_element(svg, "g", {"text-anchor": anchor})
    for number, token in enumerate(tokens):
        y = _row_center_y(number) + 0.35 * FONT_SIZE
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
        line = {"d": f"M{x} {y - 4:.1f}h14", "stroke-width": "3"}
        add_element(legend, "path", line | _stroke(head))
        position = {"x": f"{x + 17}", "y": f"{y:.1f}"}
        add_element(legend, "text", position, f"{head + 1}")


def _stroke(head):
    stroke = {"stroke": COLORS[head % len(COLORS)]}
    dashes = DASHES[head // len(COLORS) % len(DASHES)]
    return stroke | ({"stroke-dasharray": dashes} if dashes else {})


def _row_center_y(row):
    return _MARGIN + _ROW * (row + 0.5)
