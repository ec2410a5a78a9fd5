"""Draws attention weights at the width that TensorBoard displays."""

import contextlib
import functools
import pathlib
import typing

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from export.attention_views.rendering import KIND_NAMES
from export.attention_views.word_attention import KINDS

# TensorBoard's Images tab scales pictures to this width without smoothing;
# letters of other sizes would be unreadable.
WIDTH = 350
# Maximum number of tokens of a side, with a label each.
MAX_TOKENS = 24

_SPACE = "\u2581"  # of SentencePiece
_AXES = {
    "source_tokens": "source tokens",
    "target_tokens": "predicted tokens",
    "target_inputs": "decoder inputs",
}
# The colors of weights 0 and 1: one hue, so that color-blind readers can
# tell weights by lightness alone.
_LIGHT, _DARK = np.array([248.0, 250.0, 254.0]), np.array([9.0, 40.0, 102.0])
_INK, _FRAME = (32, 33, 36), (200, 202, 208)
_TITLE, _TEXT, _SMALL = 13, 10, 9  # font sizes
_LINE, _GAP, _HEAD = 15, 8, 45
_MIN_CELL_WIDTH, _MAX_CELL_WIDTH, _MAX_CELL_HEIGHT = 11, 22, 13
_MAX_LABEL_WIDTH = 76
_FONT = pathlib.Path(__file__).parent / "fonts" / "DejaVuSans-subset.ttf"
# Used for scripts that the packaged font lacks, if installed.
_SYSTEM_FONTS = (
    *("NotoSansCJK-Regular.ttc", "Arial Unicode.ttf", "msyh.ttc"),
    *("NotoSansDevanagari-Regular.ttf", "NotoSansThai-Regular.ttf"),
    *("wqy-microhei.ttc", "unifont.otf", "DejaVuSans.ttf"),
)


class Label(typing.NamedTuple):
    """Text and font of a token; it is readable if the font has its letters."""

    text: str
    font: ImageFont.FreeTypeFont
    is_readable: bool


def draw_layer(maps, kind, layer):
    """Draws every head of a layer, counted from 1, as a PIL.Image.

    Of longer sentences the first MAX_TOKENS tokens are shown, with a note.
    """
    labels, notes = [], []
    for name, side in zip(("rows", "columns"), KINDS[kind]):
        tokens = getattr(maps, side)
        labels.append([token_label(token) for token in tokens[:MAX_TOKENS]])
        if len(tokens) > MAX_TOKENS:
            notes.append(
                f"Shown are the first {MAX_TOKENS} of {len(tokens)} {name}."
            )
    rows, columns = labels
    if not all(label.is_readable for label in rows + columns):
        notes.append("U+...: no font of the training's machine has it.")
    weights = getattr(maps, kind)[layer - 1, :, : len(rows), : len(columns)]
    # Fills the width with heads, in lines of equal length if possible.
    left = _widest(rows) + 6
    max_heads = (WIDTH - left) // (len(columns) * _MIN_CELL_WIDTH + _GAP)
    lines = -(-len(weights) // max(max_heads, 1))
    heads = -(-len(weights) // lines)
    pitch = (WIDTH - left) // heads
    cell_width = min((pitch - _GAP) // len(columns), _MAX_CELL_WIDTH)
    cell_height = min(cell_width, _MAX_CELL_HEIGHT)
    row_labels = _label_column(rows, cell_height, "r")
    column_labels = _label_column(columns, cell_width, "l").transpose(
        Image.Transpose.ROTATE_90
    )
    top = _LINE + column_labels.height + 3
    line_height = top + cell_height * len(rows) + _LINE
    end = _HEAD + lines * line_height
    height = end + _LINE * len(notes)
    picture = _titled(f"{KIND_NAMES[kind]}, layer {layer}", kind, height)
    for head, each in enumerate(weights):
        line, position = divmod(head, heads)
        x, y = left + position * pitch, _HEAD + line * line_height
        _write(picture, (x, y + _LINE // 2), f"head {head + 1}", _TEXT)
        picture.paste(column_labels, (x, y + _LINE))
        _paste(picture, _cells(each, cell_width, cell_height), (x, y + top))
        if not position:
            picture.paste(row_labels, (2, y + top))
    for number, note in enumerate(notes):
        _write(picture, (2, end + number * _LINE), note, _SMALL)
    return picture


def token_label(token):
    """Returns the Label of a token; a letter without a font is U+4F60, say."""
    # SentencePiece's mark would look like a black bar beside each word.
    text = token.replace(_SPACE, "_")
    able = [f for f in _fonts() if all(_has(f, letter) for letter in text)]
    font = (able or _fonts())[0]
    shown = "".join(
        letter if _has(font, letter) else f"U+{ord(letter):04X}"
        for letter in text
    )
    while font.getlength(shown) > _MAX_LABEL_WIDTH:
        shown = shown.rstrip("…")[:-1] + "…"
    return Label(shown, font, bool(able))


@functools.cache
def _fonts():
    fonts = [ImageFont.truetype(_FONT, _TEXT)]
    for name in _SYSTEM_FONTS:
        with contextlib.suppress(OSError):
            fonts.append(ImageFont.truetype(name, _TEXT))
    return fonts


@functools.cache
def _has(font, letter):
    # U+FFFF is no character, so fonts render it as their missing glyph.
    shown, missing = font.getmask(letter), font.getmask("\uffff")
    return (shown.size, bytes(shown)) != (missing.size, bytes(missing))


def _label_column(labels, pitch, side):
    width = _widest(labels)
    column = Image.new("RGB", (width, pitch * len(labels)), "white")
    for number, (text, font, _) in enumerate(labels):
        position = (width if side == "r" else 0, pitch * number + pitch // 2)
        ImageDraw.Draw(column).text(position, text, _INK, font, f"{side}m")
    return column


def _widest(labels):
    return max(round(font.getlength(text)) for text, font, _ in labels)


def _cells(weights, width, height):
    pixels = _colors(weights).repeat(height, axis=0).repeat(width, axis=1)
    # Lines between cells lead the eye from a cell to its label.
    pixels[height - 1 :: height] = pixels[:, width - 1 :: width] = 255
    return Image.fromarray(pixels)


def _colors(weights):
    """Returns uint8 [..., 3], linear from light at 0 to dark at 1."""
    steps = np.asarray(weights)[..., None] * (_DARK - _LIGHT)
    return np.round(_LIGHT + steps).astype(np.uint8)


def _titled(title, kind, height):
    rows, columns = (_AXES[side] for side in KINDS[kind])
    picture = Image.new("RGB", (WIDTH, height), "white")
    _write(picture, (4, 9), title, _TITLE)
    _write(picture, (4, 24), f"rows: {rows}, columns: {columns}", _SMALL)
    scale = _colors(np.tile(np.linspace(0.0, 1.0, 60), (9, 1)))
    _paste(picture, Image.fromarray(scale), (WIDTH - 76, 6))
    _write(picture, (WIDTH - 85, 11), "0", _SMALL)
    _write(picture, (WIDTH - 12, 11), "1", _SMALL)
    return picture


def _write(picture, position, text, size):
    font = ImageFont.truetype(_FONT, size)
    ImageDraw.Draw(picture).text(position, text, _INK, font, "lm")


def _paste(picture, pasted, position):
    picture.paste(pasted, position)
    (x, y), (width, height) = position, pasted.size
    box = (x - 1, y - 1, x + width, y + height)
    ImageDraw.Draw(picture).rectangle(box, outline=_FRAME)
