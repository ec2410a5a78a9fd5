"""One HTML file that shows attention and needs nothing but itself."""

import base64
import hashlib
import json
import pathlib
import re

from export.rounded_rows import ONE, rounded_rows

_FOLDER = pathlib.Path(__file__).with_name("attention_page")
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
# What rounding to uint16 gives, and what maps.js divides by.
assert ONE == 65535


def attention_html(sentence, view, views=(), note=""):
    """Packs the page.

    Args:
        sentence: AttendedSentence.
        view: AttentionView that the page opens with.
        views: pairs of a name and an AttentionView, buttons of the page.
        note: a sentence above the picture.

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
        "data": _json(_data(sentence, view, views, note)),
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
