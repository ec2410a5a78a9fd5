"""One HTML file that shows attention and needs nothing but itself."""

import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import zlib

import numpy as np

# What a weight of 1 becomes. Steps of 0.02 % are finer than what the page says
# in numbers, and compress to half of what 16 bits do.
ONE = 4095


def rounded_rows(weights):
    """Rounds rows that sum to 1 to whole numbers.

    Plain rounding would let long rows drift from their sum.

    Args:
        weights: float [..., K], not negative; rows sum to 1, but for
            floating-point rounding.

    Returns:
        uint16 [..., K]: each row sums to 4095, no number is more than 1 from
        4095 times its weight, and a weight of 0 is 0.
    """
    weights = np.asarray(weights, np.float64)
    exact = ONE * weights / weights.sum(axis=-1, keepdims=True)
    # A sum that is rounded at each step ends at ONE.
    sums = np.rint(np.cumsum(exact, axis=-1))
    return np.diff(sums, axis=-1, prepend=0).astype(np.uint16)


_FOLDER = pathlib.Path(__file__).with_name("page")
# Read in this order into one script.
_SCRIPTS = (
    "maps.js",
    "elements.js",
    "lines.js",
    "matrix.js",
    "word.js",
    "controls.js",
    "words.js",
    "page.js",
)


def attention_html(sentence, view, texts, views=()):
    """Packs the page.

    Args:
        sentence: AttendedSentence.
        view: AttentionView that the page opens with.
        texts: dict of what stands above the picture: `about` the model,
            `translation_term`, what the translation is called, and `note`,
            which may be "".
        views: pairs of a name and an AttentionView, buttons of the page.

    Returns:
        The HTML as str. It asks nothing of any network: its content security
        policy allows its own style and script alone. Text of the sentence is
        data, never markup.
    """
    style = _read("page.css")
    script = "\n".join(map(_read, _SCRIPTS))
    parts = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": _json(_data(sentence, view, texts, views)),
    }
    # In one pass: what is filled in is not searched again.
    return re.sub(
        r"\{\{(\w+)\}\}",
        lambda found: parts[found[1]],
        _read("template.html"),
    )


def _read(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _json(data):
    # "<" alone could end the element that holds the data.
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def _data(sentence, view, texts, views):
    parts = {
        unit: {kind: sentence.part(unit, kind) for kind in sentence.KINDS}
        for unit in sentence.UNITS
    }
    return {
        **texts,
        "source": sentence.maps.text,
        "translation": sentence.maps.translation,
        "layers": sentence.layers,
        "heads": sentence.heads,
        "units": {
            unit: {
                kind: {"from": part.rows, "to": part.columns}
                for kind, part in kinds.items()
            }
            for unit, kinds in parts.items()
        },
        # One after the other, in the order of the lists above.
        "weights": _packed(
            part.weights for kinds in parts.values() for part in kinds.values()
        ),
        "view": _view(view),
        "views": [{"name": name, "view": _view(each)} for name, each in views],
    }


def _packed(arrays):
    """Returns arrays [..., M] as base64 of deflated little-endian uint16."""
    numbers = [rounded_rows(each).astype("<u2").ravel() for each in arrays]
    packed = zlib.compress(np.concatenate(numbers).tobytes())
    return base64.b64encode(packed).decode("ascii")


def _view(view):
    word = None
    if view.word is not None:
        word = {"side": "from", "index": view.word}
    return {**dataclasses.asdict(view), "word": word}
