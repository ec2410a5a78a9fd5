"""Creates elements and text of SVG pictures."""

import re
import unicodedata
import xml.etree.ElementTree as ET

FONT_SIZE = 14
# Characters that XML 1.0 cannot hold.
_NOT_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def create_picture(width, height):
    """Returns an empty picture, an Element; sizes are in pixels."""
    return ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "font-family": "Helvetica, Arial, sans-serif",
            "font-size": f"{FONT_SIZE}",
        },
    )


def add_element(parent, name, attributes, text=None):
    """Adds an Element and returns it; U+FFFD replaces characters not in XML."""
    element = ET.SubElement(parent, name, attributes)
    if text is not None:
        element.text = _NOT_XML.sub("\ufffd", text)
    return element


def text_width(text):
    """Estimates the width of text in pixels; viewers' fonts differ."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return FONT_SIZE * (0.6 * (len(text) - wide) + 1.05 * wide)


def picture_to_string(svg):
    """Returns a picture as str."""
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"
