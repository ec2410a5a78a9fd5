"""Line charts with two logarithmic axes, as SVG."""

import math

from export.common import svg

_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 596, 44, 388
_NAME_HEIGHT = 18
# Okabe and Ito's palette at medium brightness, for light and dark backgrounds.
_COLOURS = ("#7f7f7f", "#0072b2", "#449cff", "#d55e00", "#b8860b", "#009e73")
_DASHES = ("none", "7 3", "2 3")


def log_log_svg(title, axes, series, format_power):
    """Returns an SVG chart with a labeled line for each series.

    `series` is a dict of name to a list of positive (x, y), possibly empty. All
    share a few values of x, which become the ticks. `format_power` is a
    function of a power of 10 that returns its label.
    """
    points = [point for line in series.values() for point in line]
    xs = sorted({x for x, _ in points})
    low = math.floor(math.log10(min(y for _, y in points)))
    high = math.ceil(math.log10(max(y for _, y in points)))
    high = max(high, low + 1)
    x_of = _scale(xs[0], xs[-1], _LEFT, _RIGHT)
    y_of = _scale(10.0**low, 10.0**high, _BOTTOM, _TOP)
    picture = svg.create_picture(_WIDTH, _HEIGHT)
    middle_x, middle_y = (_LEFT + _RIGHT) / 2, (_TOP + _BOTTOM) / 2
    turned = {"transform": f"rotate(-90 18 {middle_y})"}
    _text(picture, title, _LEFT, 24)
    _text(picture, axes[0], middle_x, _BOTTOM + 40, "middle")
    _text(picture, axes[1], 18, middle_y, "middle", **turned)
    for x in xs:
        _line(picture, [(x_of(x), _TOP), (x_of(x), _BOTTOM)])
        _text(picture, f"{x:,}", x_of(x), _BOTTOM + 18, "middle")
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        _line(picture, [(_LEFT, y), (_RIGHT, y)])
        _text(picture, format_power(power), _LEFT - 8, y + 4, "end")
    ends = []
    for number, (name, line) in enumerate(series.items()):
        if line:
            places = [(x_of(x), y_of(y)) for x, y in sorted(line)]
            color = _COLOURS[number % len(_COLOURS)]
            dash = _DASHES[number % len(_DASHES)]
            _line(picture, places, color, 2, dash)
            ends.append((places[-1][::-1], name, color))
    # Labels are at the ends of lines, moved apart where they would overlap.
    place = _TOP - _NAME_HEIGHT
    for (y, x), name, color in sorted(ends):
        place = max(y, place + _NAME_HEIGHT)
        _line(picture, [(x, y), (_RIGHT + 18, place)], color, 0.5)
        _text(picture, name, _RIGHT + 22, place + 4, fill=color)
    return svg.picture_to_string(picture)


def _scale(low, high, start, end):
    """Returns a function from values to coordinates, start to end."""
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _line(picture, places, color="#7f7f7f", width=0.3, dash="none"):
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    look = {"stroke": color, "stroke-width": f"{width}", "fill": "none"}
    more = {"stroke-dasharray": dash}
    svg.add_element(picture, "path", {"d": f"M{path}", **look, **more})


def _text(picture, text, x, y, anchor="start", fill="#7f7f7f", **more):
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    svg.add_element(picture, "text", {**place, "fill": fill, **more}, text)
