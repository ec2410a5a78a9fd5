"""Draws lines over two logarithmic axes as an SVG picture."""

import math
import xml.etree.ElementTree as ET

_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 596, 44, 388
_LETTER = 13
_LABEL_ROW = 17
# Colours of lines on a light and on a dark ground, after Okabe and Ito's.
_COLOURS = (
    ("#1b1f24", "#e6edf3"),
    ("#0072b2", "#58b4f0"),
    ("#449cff", "#9ecbff"),
    ("#b34700", "#ff9b57"),
    ("#a8771c", "#e6b45c"),
    ("#00795a", "#2cc79b"),
    ("#a8518a", "#e79ccb"),
)
_DASHES = ("none", "7 3", "2 3")
# Each draws one mark around 0, 0.
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-5l5 5-5 5-5-5z",
    "M0-5l4.5 8.5h-9z",
    "M0 5l4.5-8.5h-9z",
)


def log_log_svg(title, axes, series, y_label):
    """Draws a line with marks for each series, and its name at its end.

    Colours follow the reader's light or dark scheme; marks and dashes tell
    the lines apart without them.

    Args:
        title: str, above the picture.
        axes: what x and y are, two str.
        series: dict of name to a list of (x, y), numbers above 0; x the same
            few numbers, which become the ticks. A series may be empty.
        y_label: function of a power of 10; returns how it is written.

    Returns:
        The SVG as str.
    """
    points = [point for line in series.values() for point in line]
    xs = sorted({x for x, _ in points})
    across = _scale(xs[0], xs[-1], _LEFT, _RIGHT)
    decades = _decades([y for _, y in points])
    up = _scale(10.0 ** decades[0], 10.0 ** decades[-1], _BOTTOM, _TOP)
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_WIDTH} {_HEIGHT}",
            "width": f"{_WIDTH}",
            "height": f"{_HEIGHT}",
            "font-family": "Helvetica, Arial, sans-serif",
            "font-size": f"{_LETTER}",
        },
    )
    _add(svg, "title", {}, title)
    _add(svg, "style", {}, _style())
    ground = {"width": f"{_WIDTH}", "height": f"{_HEIGHT}", "rx": "6"}
    _add(svg, "rect", {"class": "ground", **ground})
    _text(svg, title, _LEFT, 24, "start", weight="bold")
    _add_ticks(svg, xs, across, decades, up, y_label)
    _text(svg, axes[0], (_LEFT + _RIGHT) / 2, _BOTTOM + 40, "middle")
    turned = f"rotate(-90 18 {(_TOP + _BOTTOM) / 2})"
    _text(svg, axes[1], 18, (_TOP + _BOTTOM) / 2, "middle", transform=turned)
    places = {}
    for number, (name, line) in enumerate(series.items()):
        if line:
            ends = [(across(x), up(y)) for x, y in sorted(line)]
            _add_line(svg, number, ends)
            places[number] = name, *ends[-1]
    _add_names(svg, places)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _scale(low, high, start, end):
    """Returns a function of a number: where it is between start and end."""
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _decades(values):
    """Returns the powers of 10 from below the values to above, two or more."""
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    return range(low, high + 1)


def _style():
    light, dark = (
        "".join(
            f".line-{number}{{color:{pair[scheme]}}}"
            for number, pair in enumerate(_COLOURS)
        )
        for scheme in (0, 1)
    )
    return (
        ".ground{fill:#ffffff}text{fill:#1b1f24}.grid{stroke:#d5dae0}"
        f"{light}"
        "@media(prefers-color-scheme:dark){.ground{fill:#0d1117}"
        "text{fill:#e6edf3}.grid{stroke:#30363d}"
        f"{dark}}}"
    )


def _add_ticks(svg, xs, across, decades, up, y_label):
    group = _add(svg, "g", {"class": "grid", "fill": "none"})
    for x in xs:
        place = f"M{across(x):.1f} {_TOP}V{_BOTTOM}"
        _add(group, "path", {"d": place})
        _text(svg, f"{x:,}", across(x), _BOTTOM + 18, "middle")
    for power in decades:
        y = up(10.0**power)
        _add(group, "path", {"d": f"M{_LEFT} {y:.1f}H{_RIGHT}"})
        _text(svg, y_label(power), _LEFT - 8, y + 4, "end")


def _add_line(svg, number, places):
    group = _add(svg, "g", {"class": _class(number)})
    ends = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    look = {
        "fill": "none",
        "stroke": "currentColor",
        "stroke-width": "2",
        "stroke-dasharray": _DASHES[number % len(_DASHES)],
    }
    _add(group, "path", {"d": f"M{ends}", **look})
    for x, y in places:
        _add_mark(group, number, x, y)


def _add_names(svg, places):
    """Names stand beside the ends of lines, moved apart where they meet."""
    order = sorted(places, key=lambda number: places[number][2])
    # From the bottom up, so that the lowest stays above the axis.
    below, rows = _BOTTOM + _LABEL_ROW, {}
    for number in reversed(order):
        below = rows[number] = min(places[number][2], below - _LABEL_ROW)
    above = _TOP - _LABEL_ROW
    for number in order:
        above = rows[number] = max(rows[number], above + _LABEL_ROW)
        name, x, y = places[number]
        group = _add(svg, "g", {"class": _class(number)})
        leader = f"M{x + 6:.1f} {y:.1f}L{_RIGHT + 12} {above:.1f}"
        faint = {"stroke": "currentColor", "stroke-opacity": "0.4"}
        _add(group, "path", {"d": leader, "fill": "none", **faint})
        _add_mark(group, number, _RIGHT + 18, above)
        _text(svg, name, _RIGHT + 27, above + 4, "start")


def _add_mark(group, number, x, y):
    place = f"translate({x:.1f} {y:.1f})"
    shape = _MARKS[number % len(_MARKS)]
    _add(
        group, "path", {"d": shape, "transform": place, "fill": "currentColor"}
    )


def _class(number):
    return f"line-{number % len(_COLOURS)}"


def _text(svg, text, x, y, anchor, weight=None, transform=None):
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    more = {"font-weight": weight, "transform": transform}
    _add(svg, "text", place | {k: v for k, v in more.items() if v}, text)


def _add(parent, name, attributes, text=None):
    made = ET.SubElement(parent, name, attributes)
    made.text = text
    return made
