"""Draws attention weights at the width that TensorBoard displays."""

import contextlib
import functools
import pathlib
import typing

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from export.attention_views.rendering import KIND_TITLES
from export.attention_views.word_attention import ATTENTION_KINDS, AttentionMaps

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
_TEXT_COLOR, _FRAME_COLOR = (32, 33, 36), (200, 202, 208)
# Sizes in pixels, of fonts first.
_TITLE_SIZE, _TEXT_SIZE, _SMALL_SIZE = 13, 10, 9
_LINE_HEIGHT, _GAP, _HEADER_HEIGHT = 15, 8, 45
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
    """Text and font of a token; readable if the font has all its letters."""

    text: str
    font: ImageFont.FreeTypeFont
    is_readable: bool


def draw_layer(maps: AttentionMaps, kind: str, layer: int) -> Image.Image:
    """Draws every head of a layer, counted from 1.

    Of longer sentences the first MAX_TOKENS tokens are drawn, with a note.
    """
    labels, notes = [], []
    for axis, field in zip(("rows", "columns"), ATTENTION_KINDS[kind]):
        tokens = getattr(maps, field)
        labels.append([token_label(token) for token in tokens[:MAX_TOKENS]])
        if len(tokens) > MAX_TOKENS:
            notes.append(f"The first {MAX_TOKENS} of {len(tokens)} {axis}.")
    rows, columns = labels
    if not all(label.is_readable for label in rows + columns):
        notes.append("U+...: no installed font has this letter.")
    weights = getattr(maps, kind)[layer - 1, :, : len(rows), : len(columns)]
    # Fills the width with heads, in lines of equal length if possible.
    left = _widest(rows) + 6
    max_heads = (WIDTH - left) // (len(columns) * _MIN_CELL_WIDTH + _GAP)
    num_lines = -(-len(weights) // max(max_heads, 1))
    heads_per_line = -(-len(weights) // num_lines)
    head_width = (WIDTH - left) // heads_per_line
    cell_width = min((head_width - _GAP) // len(columns), _MAX_CELL_WIDTH)
    cell_height = min(cell_width, _MAX_CELL_HEIGHT)
    row_labels = _draw_labels(rows, cell_height, "r")
    column_labels = _draw_labels(columns, cell_width, "l").transpose(
        Image.Transpose.ROTATE_90
    )
    matrix_top = _LINE_HEIGHT + column_labels.height + 3
    head_height = matrix_top + cell_height * len(rows) + _LINE_HEIGHT
    bottom = _HEADER_HEIGHT + num_lines * head_height
    picture = _new_picture(kind, layer, bottom + _LINE_HEIGHT * len(notes))
    for head, matrix in enumerate(weights):
        line, column = divmod(head, heads_per_line)
        x, y = left + column * head_width, _HEADER_HEIGHT + line * head_height
        title_position = (x, y + _LINE_HEIGHT // 2)
        _write(picture, title_position, f"head {head + 1}", _TEXT_SIZE)
        picture.paste(column_labels, (x, y + _LINE_HEIGHT))
        cells = _draw_cells(matrix, cell_width, cell_height)
        picture.paste(cells, (x - 1, y + matrix_top - 1))
        if column == 0:
            picture.paste(row_labels, (2, y + matrix_top))
    for index, note in enumerate(notes):
        _write(picture, (2, bottom + index * _LINE_HEIGHT), note, _SMALL_SIZE)
    return picture


def token_label(token: str) -> Label:
    """Labels a token; U+4F60 stands for a letter not in fonts."""
    # SentencePiece's mark would look like a black bar beside each word.
    text = token.replace(_SPACE, "_")
    fonts = [f for f in _fonts() if all(_has(f, letter) for letter in text)]
    font = (fonts or _fonts())[0]
    shown = "".join(
        letter if _has(font, letter) else f"U+{ord(letter):04X}"
        for letter in text
    )
    while font.getlength(shown) > _MAX_LABEL_WIDTH:
        shown = shown.rstrip("…")[:-1] + "…"
    return Label(shown, font, bool(fonts))


@functools.cache
def _fonts():
    fonts = [ImageFont.truetype(_FONT, _TEXT_SIZE)]
    for name in _SYSTEM_FONTS:
        with contextlib.suppress(OSError):
            fonts.append(ImageFont.truetype(name, _TEXT_SIZE))
    return fonts


@functools.cache
def _has(font, letter):
    # U+FFFF is no character, so fonts render it as their missing glyph.
    glyph, missing = font.getmask(letter), font.getmask("\uffff")
    return (glyph.size, bytes(glyph)) != (missing.size, bytes(missing))


def _draw_labels(labels, row_height, side):
    """Draws labels in rows, flush with the side "l" or "r"."""
    width = _widest(labels)
    picture = Image.new("RGB", (width, row_height * len(labels)), "white")
    draw = ImageDraw.Draw(picture)
    x = width if side == "r" else 0
    for row, (text, font, _) in enumerate(labels):
        position = (x, row_height * row + row_height // 2)
        draw.text(position, text, _TEXT_COLOR, font, f"{side}m")
    return picture


def _widest(labels):
    return max(round(font.getlength(text)) for text, font, _ in labels)


def _draw_cells(weights, width, height):
    pixels = _colors(weights).repeat(height, axis=0).repeat(width, axis=1)
    # Lines between cells lead the eye from a cell to its label.
    pixels[height - 1 :: height] = pixels[:, width - 1 :: width] = 255
    return _add_frame(pixels)


def _add_frame(pixels):
    return ImageOps.expand(Image.fromarray(pixels), 1, _FRAME_COLOR)


def _colors(weights):
    """Returns uint8 [..., 3], linear from light at 0 to dark at 1."""
    steps = np.asarray(weights)[..., None] * (_DARK - _LIGHT)
    return np.round(_LIGHT + steps).astype(np.uint8)


def _new_picture(kind, layer, height):
    """Returns a picture with title, axes and color scale, without heads."""
    rows, columns = (_AXES[field] for field in ATTENTION_KINDS[kind])
    picture = Image.new("RGB", (WIDTH, height), "white")
    title = f"{KIND_TITLES[kind]}, layer {layer}"
    _write(picture, (4, 9), title, _TITLE_SIZE)
    _write(picture, (4, 24), f"rows: {rows}, columns: {columns}", _SMALL_SIZE)
    scale = _colors(np.tile(np.linspace(0.0, 1.0, 60), (9, 1)))
    picture.paste(_add_frame(scale), (WIDTH - 77, 5))
    _write(picture, (WIDTH - 85, 11), "0", _SMALL_SIZE)
    _write(picture, (WIDTH - 12, 11), "1", _SMALL_SIZE)
    return picture


def _write(picture, position, text, size):
    font = ImageFont.truetype(_FONT, size)
    ImageDraw.Draw(picture).text(position, text, _TEXT_COLOR, font, "lm")
