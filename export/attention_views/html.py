"""Packs attention into one self-contained HTML file."""

import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import zlib

import numpy as np

from export.attention_views.word_attention import KINDS, UNITS

# Stands for a weight of 1. Steps of 0.02 % are finer than the numbers on the
# page, and compress to half the size of 16 bits.
WEIGHT_SCALE = 4095

_FOLDER = pathlib.Path(__file__).with_name("page")
# The script is these files, joined in this order.
_SCRIPTS = (
    *("maps.js", "elements.js", "lines.js", "matrix.js"),
    *("word.js", "controls.js", "words.js", "page.js"),
)


def attention_html(sentence, view, texts, views=()):
    """Returns a self-contained HTML page of a SentenceAttention.

    The page opens with `view`, and has a button for each pair of a name and an
    AttentionView in `views`. `texts` is a dict of the texts above the picture:
    `about` the model, `translation_term`, the heading of the translation, and
    `note`, which may be "". The content security policy allows the page's own
    style and script only, and no network. Text of the sentence is embedded as
    data, never as markup.
    """
    style = _read("page.css")
    script = "\n".join(map(_read, _SCRIPTS))
    parts = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        # "<" could end the HTML element that holds the data.
        "data": json.dumps(
            _data(sentence, view, texts, views), allow_nan=False
        ).replace("<", "\\u003c"),
    }
    # In one pass, so that inserted text is not searched for placeholders.
    return re.sub(
        r"\{\{(\w+)\}\}",
        lambda found: parts[found[1]],
        _read("template.html"),
    )


def round_rows(weights):
    """Rounds rows that sum to 1 to integers that sum to 4095.

    Rounding each weight by itself would let the sums of long rows drift.
    Weights are float [..., K], not negative. Returns uint16 [..., K]: each at
    most 1 from 4095 times its weight; 0 stays 0.
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


def _data(sentence, view, texts, views):
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
        "view": _view(view),
        "views": [{"name": name, "view": _view(each)} for name, each in views],
    }


def _view(view):
    word = None
    if view.word is not None:
        word = {"side": "from", "index": view.word}
    return {**dataclasses.asdict(view), "word": word}
