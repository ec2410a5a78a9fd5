"""The colours of the attention page, for all eyes."""

import itertools
import re

import numpy as np
import pytest

from tests.export import tiny

# Machado et al. 2009, severity 1.0: linear RGB to what is seen.
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
SCHEMES = ("light", "dark")


def colours(scheme):
    """Returns the colours of a scheme by their names."""
    css = tiny.ROOT / "export" / "attention_views" / "page" / "page.css"
    light, dark = css.read_text(encoding="utf-8").split(":root {")[1:3]
    block = {"light": light, "dark": dark}[scheme].split("}")[0]
    return dict(re.findall(r"--([\w-]+): (#\w{6});", block))


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(
        channels <= 0.04045,
        channels / 12.92,
        ((channels + 0.055) / 1.055) ** 2.4,
    )


def luminance(colour):
    """Relative luminance of WCAG 2.2."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lab(colour, eyes):
    """CIE 1976 L*a*b*, white D65, of what such eyes see."""
    seen = np.clip(np.array(BLINDNESS[eyes]) @ linear(colour), 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = np.array(to_xyz) @ seen / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), xyz * 841 / 108 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a, b):
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_and_lines_stand_out(scheme):
    found = colours(scheme)
    is_light = luminance(found["panel"]) > 0.5
    assert is_light == (scheme == "light")
    for ground in (found["panel"], found["page"]):
        assert contrast(found["ink"], ground) >= 7
        assert contrast(found["quiet"], ground) >= 4.5
    assert contrast(found["on-accent"], found["accent"]) >= 4.5
    for name in ["accent", *(f"head-{number}" for number in range(8))]:
        assert contrast(found[name], found["panel"]) >= 2.5, name


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eyes", BLINDNESS)
def test_heads_differ_for_colour_blind_eyes(scheme, eyes):
    found = colours(scheme)
    seen = [lab(found[f"head-{number}"], eyes) for number in range(8)]
    pairs = itertools.combinations(seen, 2)
    # Okabe and Ito's own have 16 at least; 2.3 is what one just notices.
    assert min(np.linalg.norm(a - b) for a, b in pairs) >= 12
