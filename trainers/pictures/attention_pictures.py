"""Draws attention weights, each picture as wide as TensorBoard shows it."""

import typing

import numpy as np
from PIL import Image, ImageDraw

from export.translators.word_alignment import SPACE
from trainers.pictures.labels import Label
from trainers.pictures.shades import shades

# TensorBoard's Images tab scales pictures to this width, pixel by pixel; any
# other would make letters unreadable.
WIDTH = 350
# So many tokens of a side fit, with a label each.
MOST_TOKENS = 24

_TEXT, _TITLE, _SMALL = 10, 13, 9
_CELL = (11, 22)  # the narrowest cell that a label fits, and the widest
_ROW = 13  # the highest cell
_LABEL = 76  # the widest label of a token
_GAP = 8
_LINE = 15
_THUMBNAIL = 88

KINDS = {
    "encoder": ("Encoder self-attention", "source_tokens", "source_tokens"),
    "decoder": ("Decoder self-attention", "target_tokens", "target_inputs"),
    "cross": ("Cross-attention", "target_tokens", "source_tokens"),
}
_AXES = {
    "encoder": "rows: source token, columns: source tokens it attends to",
    "decoder": "rows: token being given, columns: what is given so far",
    "cross": "rows: token being given, columns: source tokens",
}


class _Axes(typing.NamedTuple):
    """Labels of rows and columns, of those tokens that fit."""

    rows: list
    columns: list
    left: int
    top: int
    notes: list


def layer_picture(maps, kind, layer):
    """Draws every head of a layer, with the tokens at both sides.

    Args:
        maps: AttentionMaps.
        kind: "encoder", "decoder" or "cross".
        layer: number of the layer, from 1.

    Returns:
        PIL.Image, WIDTH pixels wide. Of more than MOST_TOKENS tokens a side
        the first are shown, and the picture says so.
    """
    title, queries, keys = KINDS[kind]
    axes = _axes(getattr(maps, queries), getattr(maps, keys))
    weights = getattr(maps, kind)[layer - 1]
    heads = len(weights)
    count = _heads_beside(heads, len(axes.columns), axes.left)
    room = (WIDTH - axes.left) // count - _GAP
    wide = min(room // len(axes.columns), _CELL[1])
    high = min(wide, _ROW)
    block = axes.top + 2 * _LINE + high * len(axes.rows)
    lines = -(-heads // count)
    head = 3 * _LINE
    height = head + lines * block + _LINE * len(axes.notes)
    picture = _titled(f"{title}, layer {layer}", _AXES[kind], height)
    for number, each in enumerate(weights):
        line, column = divmod(number, count)
        x = axes.left + column * (room + _GAP)
        y = head + line * block
        Label(f"head {number + 1}", _TEXT).draw(picture, x, y + _LINE // 2)
        place = (x, y + _LINE + axes.top)
        _draw_weights(picture, each, axes, (wide, high), place)
        if not column:
            _draw_rows(picture, axes, high, place)
    for number, note in enumerate(axes.notes):
        y = head + lines * block + number * _LINE
        Label(note, _SMALL, WIDTH).draw(picture, 2, y)
    return picture


def overview_picture(maps, kind):
    """Draws all heads of all layers of a kind, small and without labels.

    Args:
        maps: AttentionMaps.
        kind: "encoder", "decoder" or "cross".

    Returns:
        PIL.Image, WIDTH pixels wide for up to 17 heads.
    """
    weights = getattr(maps, kind)
    layers, heads = weights.shape[:2]
    left, gap = 46, 3
    side = min(max((WIDTH - left) // heads - gap, 14), _THUMBNAIL)
    width = max(WIDTH, left + heads * (side + gap))
    head = 3 * _LINE + 3
    picture = _titled(
        f"{KINDS[kind][0]}, all heads",
        _AXES[kind],
        head + layers * (side + gap) + gap,
        width,
    )
    for number in range(heads):
        label = Label(f"{number + 1}" if side < 44 else f"head {number + 1}", 9)
        x = left + number * (side + gap) + (side - label.width) // 2
        label.draw(picture, x, head - _LINE // 2)
    for layer, number in np.ndindex(layers, heads):
        x, y = left + number * (side + gap), head + layer * (side + gap)
        if not number:
            Label(f"layer {layer + 1}", _SMALL).draw(picture, 4, y + side // 2)
        small = Image.fromarray(weights[layer, number]).resize(
            (side, side), Image.Resampling.BOX
        )
        picture.paste(Image.fromarray(shades(small)), (x, y))
        _frame(picture, x, y, side, side)
    return picture


def _axes(queries, keys):
    rows, columns = _labels(queries), _labels(keys)
    notes = [
        f"Only the first {MOST_TOKENS} of {len(tokens)} {name} are shown."
        for name, tokens in (("rows", queries), ("columns", keys))
        if len(tokens) > MOST_TOKENS
    ]
    if not all(label.is_readable for label in rows + columns):
        notes.append("U+...: no font of the training's machine has it.")
    left = max(label.width for label in rows) + 6
    top = max(label.width for label in columns) + 6
    return _Axes(rows, columns, left, top, notes)


def _labels(tokens):
    # SentencePiece's own mark would be a black bar beside each word.
    return [
        Label(token.replace(SPACE, "_"), _TEXT, _LABEL)
        for token in tokens[:MOST_TOKENS]
    ]


def _heads_beside(heads, columns, left):
    """Returns how many heads stand side by side, lines as even as can be."""
    most = (WIDTH - left) // (columns * _CELL[0] + _GAP)
    most = min(max(most, 1), heads)
    return -(-heads // -(-heads // most))


def _draw_rows(picture, axes, high, place):
    x, y = place
    for number, label in enumerate(axes.rows):
        middle = y + number * high + high // 2
        label.draw(picture, x - label.width - 4, middle)


def _draw_weights(picture, weights, axes, cell, place):
    (wide, high), (x, y) = cell, place
    for number, label in enumerate(axes.columns):
        label.draw_upwards(picture, x + number * wide + wide // 2, y - 3)
    shown = weights[: len(axes.rows), : len(axes.columns)]
    pixels = shades(shown).repeat(high, axis=0).repeat(wide, axis=1)
    # A line between cells, so that a token can be followed to its label.
    pixels[high - 1 :: high] = pixels[:, wide - 1 :: wide] = 255
    picture.paste(Image.fromarray(pixels), place)
    _frame(picture, x, y, pixels.shape[1], pixels.shape[0])


def _titled(title, axes, height, width=WIDTH):
    picture = Image.new("RGB", (width, height), "white")
    Label(title, _TITLE).draw(picture, 4, _LINE // 2 + 2)
    Label(axes, _SMALL).draw(picture, 4, _LINE + _LINE // 2 + 2)
    steps = np.linspace(0.0, 1.0, 60)
    bar = shades(np.tile(steps, (9, 1)))
    x, y = width - 76, 6
    picture.paste(Image.fromarray(bar), (x, y))
    _frame(picture, x, y, *bar.shape[1::-1])
    Label("0", _SMALL).draw(picture, x - 9, y + 5)
    Label("1", _SMALL).draw(picture, x + 64, y + 5)
    return picture


def _frame(picture, x, y, width, height):
    ImageDraw.Draw(picture).rectangle(
        (x - 1, y - 1, x + width, y + height), outline=(200, 202, 208)
    )
