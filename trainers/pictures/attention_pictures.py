"""Draws attention weights, each picture as wide as TensorBoard shows it."""

import contextlib
import functools
import pathlib
import typing

import numpy as np
from PIL import Image, ImageDraw, ImageFont

# SentencePiece's mark of a space.
SPACE = "\u2581"
# TensorBoard's Images tab scales pictures to this width, pixel by pixel; any
# other would make letters unreadable.
WIDTH = 350
# So many tokens of a side fit, with a label each.
MOST_TOKENS = 24
# A kind's name, and the tokens of its rows and columns in AttentionMaps.
KINDS = {
    "encoder": ("Encoder self-attention", "source_tokens", "source_tokens"),
    "decoder": ("Decoder self-attention", "target_tokens", "target_inputs"),
    "cross": ("Cross-attention", "target_tokens", "source_tokens"),
}

_SIDES = {
    "source_tokens": "source tokens",
    "target_tokens": "tokens being given",
    "target_inputs": "what is given so far",
}
# Of the weights 0 and 1: one hue, so that lightness alone tells weights apart,
# for colour-blind readers too.
_LIGHT, _DARK = np.array([248.0, 250.0, 254.0]), np.array([9.0, 40.0, 102.0])
_INK, _FRAME = (32, 33, 36), (200, 202, 208)
_TITLE, _TEXT, _SMALL = 13, 10, 9
_LINE, _GAP, _HEAD = 15, 8, 45
_CELL = (11, 22)  # the narrowest cell that a label fits, and the widest
_ROW = 13  # the highest cell
_LABEL = 76  # the widest label of a token
_FONT = pathlib.Path(__file__).parent / "fonts" / "DejaVuSans-subset.ttf"
# For scripts that our own font lacks, where the machine has one of these.
_OTHERS = ["NotoSansCJK-Regular.ttc", "Arial Unicode.ttf", "msyh.ttc"]
_OTHERS += ["NotoSansDevanagari-Regular.ttf", "NotoSansThai-Regular.ttf"]
_OTHERS += ["wqy-microhei.ttc", "unifont.otf", "DejaVuSans.ttf"]


class Label(typing.NamedTuple):
    """A token as it is written beside a row or a column."""

    text: str
    font: ImageFont.FreeTypeFont
    is_readable: bool


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
    sides = {
        name: getattr(maps, side)
        for name, side in zip(("rows", "columns"), KINDS[kind][1:])
    }
    rows, columns = (
        [label_of(token) for token in side[:MOST_TOKENS]]
        for side in sides.values()
    )
    notes = _notes(sides, rows + columns)
    left = _widest(rows) + 6
    weights = getattr(maps, kind)[layer - 1, :, : len(rows), : len(columns)]
    # As many heads side by side as fit, all lines alike as far as can be.
    most = (WIDTH - left) // (len(columns) * _CELL[0] + _GAP)
    lines = -(-len(weights) // max(most, 1))
    beside = -(-len(weights) // lines)
    room = (WIDTH - left) // beside
    wide = min((room - _GAP) // len(columns), _CELL[1])
    high = min(wide, _ROW)
    above = _column(columns, wide, "l").transpose(Image.Transpose.ROTATE_90)
    top = _LINE + above.height + 3
    block = top + high * len(rows) + _LINE
    end = _HEAD + lines * block
    height = end + _LINE * len(notes)
    picture = _titled(kind, f"layer {layer}", WIDTH, height)
    for head, each in enumerate(weights):
        line, number = divmod(head, beside)
        x, y = left + number * room, _HEAD + line * block
        _write(picture, (x, y + _LINE // 2), f"head {head + 1}", _TEXT)
        picture.paste(above, (x, y + _LINE))
        _paste(picture, _cells(each, wide, high), (x, y + top))
        if not number:
            picture.paste(_column(rows, high, "r"), (2, y + top))
    for number, note in enumerate(notes):
        _write(picture, (2, end + number * _LINE), note, _SMALL)
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
    left, top = 46, _HEAD + 3
    step = min(max((WIDTH - left) // heads, 17), 90)
    side = step - 3
    width = max(WIDTH, left + heads * step)
    picture = _titled(kind, "all heads", width, top + layers * step + 3)
    for layer, head in np.ndindex(layers, heads):
        x, y = left + head * step, top + layer * step
        small = Image.fromarray(_colours(weights[layer, head]))
        small = small.resize((side, side), Image.Resampling.BOX)
        _paste(picture, small, (x, y))
        if not layer:
            name = f"{head + 1}" if side < 44 else f"head {head + 1}"
            _write(picture, (x + side // 2, y - _LINE // 2), name, _SMALL, "mm")
        if not head:
            _write(picture, (4, y + side // 2), f"layer {layer + 1}", _SMALL)
    return picture


def label_of(token):
    """Returns the Label of a token.

    Letters that no font of this machine has stand as their code points, such
    as U+4F60. What is too long is cut and ends with an ellipsis.

    Args:
        token: str.
    """
    # SentencePiece's own mark would be a black bar beside each word.
    text = token.replace(SPACE, "_")
    able = [f for f in _fonts() if all(_has(f, letter) for letter in text)]
    font = (able or _fonts())[0]
    shown = "".join(
        letter if _has(font, letter) else f"U+{ord(letter):04X}"
        for letter in text
    )
    while font.getlength(shown) > _LABEL:
        shown = shown.rstrip("…")[:-1] + "…"
    return Label(shown, font, bool(able))


@functools.cache
def _fonts():
    """Our own font, then those of the others that this machine has."""
    fonts = [ImageFont.truetype(_FONT, _TEXT)]
    for name in _OTHERS:
        with contextlib.suppress(OSError):
            fonts.append(ImageFont.truetype(name, _TEXT))
    return fonts


@functools.cache
def _has(font, letter):
    # No character: every font shows its sign for a missing one.
    shown, missing = font.getmask(letter), font.getmask("\uffff")
    return (shown.size, bytes(shown)) != (missing.size, bytes(missing))


def _notes(sides, labels):
    notes = [
        f"Only the first {MOST_TOKENS} of {len(tokens)} {name} are shown."
        for name, tokens in sides.items()
        if len(tokens) > MOST_TOKENS
    ]
    if not all(label.is_readable for label in labels):
        notes.append("U+...: no font of the training's machine has it.")
    return notes


def _column(labels, pitch, side):
    """Labels below each other, flush left ("l") or right ("r")."""
    width = _widest(labels)
    column = Image.new("RGB", (width, pitch * len(labels)), "white")
    for number, (text, font, _) in enumerate(labels):
        place = (width if side == "r" else 0, pitch * number + pitch // 2)
        ImageDraw.Draw(column).text(place, text, _INK, font, f"{side}m")
    return column


def _widest(labels):
    return max(round(font.getlength(text)) for text, font, _ in labels)


def _cells(weights, wide, high):
    pixels = _colours(weights).repeat(high, axis=0).repeat(wide, axis=1)
    # A line between cells, so that a token can be followed to its label.
    pixels[high - 1 :: high] = pixels[:, wide - 1 :: wide] = 255
    return Image.fromarray(pixels)


def _colours(weights):
    """Returns uint8 [..., 3], straight from light at 0 to dark at 1."""
    steps = np.asarray(weights)[..., None] * (_DARK - _LIGHT)
    return np.round(_LIGHT + steps).astype(np.uint8)


def _titled(kind, heads, width, height):
    title, rows, columns = KINDS[kind]
    axes = f"rows: {_SIDES[rows]}, columns: {_SIDES[columns]}"
    picture = Image.new("RGB", (width, height), "white")
    _write(picture, (4, 9), f"{title}, {heads}", _TITLE)
    _write(picture, (4, 24), axes, _SMALL)
    scale = _colours(np.tile(np.linspace(0.0, 1.0, 60), (9, 1)))
    _paste(picture, Image.fromarray(scale), (width - 76, 6))
    _write(picture, (width - 85, 11), "0", _SMALL)
    _write(picture, (width - 12, 11), "1", _SMALL)
    return picture


def _write(picture, place, text, size, anchor="lm"):
    font = ImageFont.truetype(_FONT, size)
    ImageDraw.Draw(picture).text(place, text, _INK, font, anchor)


def _paste(picture, pasted, place):
    """With a frame around it."""
    picture.paste(pasted, place)
    (x, y), (width, height) = place, pasted.size
    box = (x - 1, y - 1, x + width, y + height)
    ImageDraw.Draw(picture).rectangle(box, outline=_FRAME)
