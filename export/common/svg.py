"""Creates elements and text of SVG pictures."""

import re
import unicodedata
import xml.etree.ElementTree as ET

FONT_SIZE = 14
# Widths of characters in font sizes, a little above Helvetica's.
_NARROW_WIDTH, _WIDE_WIDTH = 0.6, 1.05
# Characters that XML 1.0 cannot hold.
_NOT_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def create_picture(width: float, height: float) -> ET.Element:
    """Returns an empty picture; sizes are in pixels."""
    return ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            # Dark pages would hide the text.
            "style": "background: white",
            "font-family": "Helvetica, Arial, sans-serif",
            "font-size": f"{FONT_SIZE}",
        },
    )


def add_element(
    parent: ET.Element,
    name: str,
    attributes: dict[str, str],
    text: str | None = None,
) -> ET.Element:
    """Adds an Element; U+FFFD replaces characters of its text not in XML."""
    element = ET.SubElement(parent, name, attributes)
    if text is not None:
        element.text = _NOT_XML.sub("\ufffd", text)
    return element


def text_width(text: str) -> float:
    """Estimates the width of text in pixels; viewers' fonts differ."""
    # Wide and fullwidth characters, such as Chinese ones.
    num_wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    num_narrow = len(text) - num_wide
    return FONT_SIZE * (_NARROW_WIDTH * num_narrow + _WIDE_WIDTH * num_wide)


def picture_to_string(svg: ET.Element) -> str:
    """Returns a picture as text."""
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"
