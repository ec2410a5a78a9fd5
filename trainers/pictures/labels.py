"""Text in pictures, whatever fonts a machine has."""

import functools
import pathlib

from PIL import Image, ImageDraw, ImageFont

_OWN = pathlib.Path(__file__).parent / "fonts" / "DejaVuSans-subset.ttf"
# For scripts that our own font lacks, where the machine has one of these.
_OTHERS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "unifont.otf",
    "PingFang.ttc",
    "msyh.ttc",
    "Arial Unicode.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansThai-Regular.ttf",
    "DejaVuSans.ttf",
)
_INK = (32, 33, 36)
# No character: every font shows its sign for a missing one.
_NO_CHARACTER = "\uffff"


class Label:
    """A line of text.

    Letters that no font of this machine has stand as their code points, such
    as U+4F60.

    Args:
        text: str.
        size: of the font, in pixels.
        widest: where it is wider it is cut and ends with an ellipsis.

    Attributes:
        width: pixels.
        is_readable: whether all its letters are shown.
    """

    def __init__(self, text, size, widest=10_000):
        font = next((font for font in _fonts(size) if _shows(font, text)), None)
        self.is_readable = font is not None
        if font is None:
            font = _fonts(size)[0]
            text = "".join(_shown(font, letter) for letter in text)
        while font.getlength(text) > widest and len(text) > 1:
            text = text.rstrip("…")[:-1] + "…"
        self._text, self._font = text, font
        self.width = round(font.getlength(text))

    def draw(self, picture, x, y):
        """Draws it with its left end at x and its middle at y."""
        ImageDraw.Draw(picture).text(
            (x, y), self._text, _INK, self._font, anchor="lm"
        )

    def draw_upwards(self, picture, x, y):
        """Draws it turned by 90 degrees: its left end at y, its middle at x."""
        height = 2 * round(self._font.size)
        coverage = Image.new("L", (self.width + 2, height))
        ImageDraw.Draw(coverage).text(
            (0, height // 2), self._text, 255, self._font, anchor="lm"
        )
        coverage = coverage.transpose(Image.Transpose.ROTATE_90)
        place = (x - height // 2, y - coverage.height)
        picture.paste(_INK, place, coverage)


@functools.cache
def _fonts(size):
    return tuple(
        font
        for font in (_open(str(name), size) for name in (_OWN, *_OTHERS))
        if font is not None
    )


def _open(name, size):
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


def _shows(font, text):
    return all(_has(font.path, letter) for letter in text)


def _shown(font, letter):
    return letter if _has(font.path, letter) else f"U+{ord(letter):04X}"


@functools.cache
def _has(path, letter):
    font = ImageFont.truetype(path, 16, layout_engine=ImageFont.Layout.BASIC)
    mask, missing = font.getmask(letter), font.getmask(_NO_CHARACTER)
    return (mask.size, bytes(mask)) != (missing.size, bytes(missing))
