"""Renders attention as a self-contained HTML page or an SVG picture.

`attention` is a SentenceAttention and `view` an AttentionView: the kind of
attention, layer, heads, and unit (words or pieces) to render.
"""

import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from export.attention_views.view import AttentionView
from export.attention_views.word_attention import (
    ATTENTION_KINDS,
    UNITS,
    SentenceAttention,
)
from export.common.svg import (
    FONT_SIZE,
    add_element,
    create_picture,
    picture_to_string,
    text_width,
)

# The integer for a weight of 1: 12 bits compress to half the size of 16.
WEIGHT_SCALE = 4095

_FOLDER = pathlib.Path(__file__).with_name("page")
# The script is these files, joined in this order.
_SCRIPTS = (
    *("maps.js", "elements.js", "lines.js", "matrix.js"),
    *("word.js", "controls.js", "words.js", "page.js"),
)

# The palette of Okabe and Ito, darker where white paper needs it, as in
# page/page.css. Heads beyond the palette repeat its colors with dashes.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#cf9a3a", "#449cff", "#643a00", "#1b1f24"),
)
DASHES = (None, "7 3", "2 3", "9 3 2 3")
KIND_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}

# Pixels of the SVG picture.
_ROW_HEIGHT, _COLUMN_GAP, _MARGIN, _LEGEND_HEIGHT = 22, 220, 12, 34
# Lines of smaller weights would only make the picture grey.
_MIN_WEIGHT, _MIN_WEIGHT_OF_WORD = 0.02, 0.01


def attention_html(
    attention: SentenceAttention,
    view: AttentionView,
    texts: Mapping[str, str],
    views: Iterable[tuple[str, AttentionView]] = (),
) -> str:
    """Returns a self-contained HTML page.

    The page opens with `view`, and has a button for each pair of a name and an
    AttentionView in `views`. `texts` is a dict of the texts above the picture:
    `about` the model, `translation_term`, the heading of the translation, and
    `note`, which may be "". The content security policy allows the page's own
    style and script only, and no network. Text is embedded as data, never as
    markup.
    """
    style = _read("page.css")
    script = "\n".join(map(_read, _SCRIPTS))
    data = _page_data(attention, view, texts, views)
    replacements = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        # "<" could end the HTML element that holds the data.
        "data": json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    }
    # In one pass, so that inserted text is not searched for placeholders.
    return re.sub(
        r"\{\{(\w+)\}\}",
        lambda placeholder: replacements[placeholder[1]],
        _read("template.html"),
    )


def round_rows(weights: np.ndarray) -> np.ndarray:
    """Rounds rows that sum to 1 or 0, float [..., K], to 4095 or 0, uint16.

    Rounding each weight separately would change the sums of long rows.
    """
    weights = np.asarray(weights, np.float64)
    totals = weights.sum(axis=-1, keepdims=True)
    exact = WEIGHT_SCALE * weights / np.where(totals == 0, 1, totals)
    sums = np.rint(np.cumsum(exact, axis=-1))
    return np.diff(sums, axis=-1, prepend=0).astype(np.uint16)


def _read(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _page_data(attention, view, texts, views):
    """Returns the dict that the page's script reads."""
    units, weights = {}, []
    for unit in UNITS:
        units[unit] = {}
        for kind in ATTENTION_KINDS:
            matrices = attention.matrices(unit, kind)
            units[unit][kind] = {"from": matrices.queries, "to": matrices.keys}
            weights.append(round_rows(matrices.weights).astype("<u2").tobytes())
    return {
        **texts,
        "source": attention.maps.text,
        "translation": attention.maps.translation,
        "layers": attention.num_layers,
        "heads": attention.num_heads,
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


def attention_svg(attention: SentenceAttention, view: AttentionView) -> str:
    """Returns an SVG of two columns of tokens, joined by a line per weight.

    As in the paper's Figures 3 to 5, the color of a line is the head and its
    strength the weight; small weights are omitted.
    """
    queries, keys, weights = attention.matrices(view.unit, view.kind)
    left = _MARGIN + max(map(text_width, queries)) + 6
    right = left + _COLUMN_GAP
    width = right + 6 + max(map(text_width, keys)) + _MARGIN
    rows = max(len(queries), len(keys))
    height = 2 * _MARGIN + _ROW_HEIGHT * rows + _LEGEND_HEIGHT
    svg = create_picture(width, height)
    title = f"{KIND_TITLES[view.kind]}, layer {view.layer + 1}"
    add_element(svg, "title", {}, title)
    # Lines of different heads must not hide one another.
    num_heads = len(view.heads)
    distance = _ROW_HEIGHT * min(0.14, 0.7 / num_heads)
    for index, head in enumerate(view.heads):
        offset = distance * (index - (num_heads - 1) / 2)
        group = add_element(svg, "g", {"fill": "none", **_stroke(head)})
        _add_lines(
            group, weights[view.layer, head], view.word, left, right, offset
        )
    _add_tokens(svg, queries, left - 6, "end", view.word)
    _add_tokens(svg, keys, right + 6, "start", None)
    _add_legend(svg, title, view.heads, height - _MARGIN)
    return picture_to_string(svg)


def _add_lines(group, weights, word, left, right, offset):
    """Adds the lines of one head, [queries, keys], or of one of its words."""
    left_bend, right_bend = left + 0.4 * _COLUMN_GAP, right - 0.4 * _COLUMN_GAP
    min_weight = _MIN_WEIGHT if word is None else _MIN_WEIGHT_OF_WORD
    for query, key in np.argwhere(weights >= min_weight).tolist():
        if word not in (None, query):
            continue
        weight = float(weights[query, key])
        # The lines of a single word are stronger.
        opacity = weight if word is None else weight**0.5
        start, end = _row_center_y(query) + offset, _row_center_y(key) + offset
        curve = {
            "d": f"M{left:.1f} {start:.1f}C{left_bend:.1f} {start:.1f} "
            f"{right_bend:.1f} {end:.1f} {right:.1f} {end:.1f}",
            "stroke-opacity": f"{opacity:.3f}",
            "stroke-width": f"{1 + 2 * weight:.2f}",
        }
        add_element(group, "path", curve)


def _add_tokens(svg, tokens, x, anchor, bold_index):
    group = add_element(svg, "g", {"text-anchor": anchor})
    for index, token in enumerate(tokens):
        y = _row_center_y(index) + 0.35 * FONT_SIZE
        attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        if index == bold_index:
            attributes["font-weight"] = "bold"
        add_element(group, "text", attributes, token)


def _add_legend(svg, title, heads, y):
    legend = add_element(svg, "g", {"font-size": "11", "fill": "#444444"})
    position = {"x": f"{_MARGIN}", "y": f"{y - 16:.1f}"}
    add_element(legend, "text", position, f"{title}; heads:")
    for index, head in enumerate(heads):
        x = _MARGIN + 34 * index
        line = {"d": f"M{x} {y - 4:.1f}h14", "stroke-width": "3"}
        add_element(legend, "path", line | _stroke(head))
        position = {"x": f"{x + 17}", "y": f"{y:.1f}"}
        add_element(legend, "text", position, f"{head + 1}")


def _stroke(head):
    stroke = {"stroke": COLORS[head % len(COLORS)]}
    dashes = DASHES[head // len(COLORS) % len(DASHES)]
    return stroke | ({"stroke-dasharray": dashes} if dashes else {})


def _row_center_y(row):
    return _MARGIN + _ROW_HEIGHT * (row + 0.5)
