"""Colours and numbers of the attention page, without a browser."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.attention_views.html import WEIGHT_SCALE, round_rows
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
    "none": np.eye(3),
}
XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=120).filter(sum))
def test_rounded_rows_keep_their_sum_and_are_near(weights):
    exact = np.array(weights) / np.sum(weights)
    # As the model gives them.
    found = round_rows(exact.astype(np.float32)[None])
    assert found.dtype == np.uint16
    assert found.sum() == WEIGHT_SCALE
    assert (np.abs(found[0] - WEIGHT_SCALE * exact) <= 1.01).all()
    assert (found[0][exact == 0] == 0).all()


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(
        channels <= 0.04045,
        channels / 12.92,
        ((channels + 0.055) / 1.055) ** 2.4,
    )


def lab(rgb):
    """CIE 1976 L*a*b*, white D65."""
    xyz = XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), xyz * 841 / 108 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("scheme", [1, 2], ids=["light", "dark"])
def test_text_and_heads_can_be_told_apart(scheme):
    """Contrast by WCAG 2.2; heads also for colour-blind eyes."""
    css = tiny.ROOT / "export" / "attention_views" / "page" / "page.css"
    block = css.read_text("utf-8").split(":root {")[scheme].split("}")[0]
    found = {
        name: linear(colour)
        for name, colour in re.findall(r"--([\w-]+): (#\w{6});", block)
    }

    def contrast(*names):
        low, high = sorted(found[name] @ XYZ[1] for name in names)
        return (high + 0.05) / (low + 0.05)

    assert (found["panel"] @ XYZ[1] > 0.5) == (scheme == 1)
    for ground in ("panel", "page"):
        assert contrast("ink", ground) >= 7
        assert contrast("quiet", ground) >= 4.5
    assert contrast("on-accent", "accent") >= 4.5
    heads = [f"head-{number}" for number in range(8)]
    for name in ["accent", *heads]:
        assert contrast(name, "panel") >= 2.5, name
    for eyes in BLINDNESS.values():
        seen = [lab(np.array(eyes) @ found[head]) for head in heads]
        pairs = itertools.combinations(seen, 2)
        # Okabe and Ito's own have 16 at least; 2.3 is what one just notices.
        assert min(np.linalg.norm(a - b) for a, b in pairs) >= 12
