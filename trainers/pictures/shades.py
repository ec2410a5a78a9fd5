"""Colours of attention weights."""

import math

import numpy as np

# Of 0 and of 1: lightness, chroma. One hue, so that lightness alone tells
# weights apart, for colour-blind readers too.
_NOTHING, _ALL = (0.985, 0.005), (0.30, 0.115)
_HUE = math.radians(262.0)


def shades(weights):
    """Returns blues in equal steps of perceived lightness.

    Lightness and chroma go straight from nearly white at 0 to dark at 1 in
    OKLab (Ottosson 2020).

    Args:
        weights: float [...], 0 to 1.

    Returns:
        uint8 [..., 3], sRGB.
    """
    light, chroma = (
        start + (end - start) * np.asarray(weights, np.float64)
        for start, end in zip(_NOTHING, _ALL)
    )
    a, b = chroma * math.cos(_HUE), chroma * math.sin(_HUE)
    cones = (
        np.stack(
            [
                light + 0.3963377774 * a + 0.2158037573 * b,
                light - 0.1055613458 * a - 0.0638541728 * b,
                light - 0.0894841775 * a - 1.2914855480 * b,
            ],
            axis=-1,
        )
        ** 3
    )
    linear = cones @ np.array(
        [
            [4.0767416621, -1.2684380046, -0.0041960863],
            [-3.3077115913, 2.6097574011, -0.7034186147],
            [0.2309699292, -0.3413193965, 1.7076147010],
        ]
    )
    linear = np.clip(linear, 0.0, 1.0)
    encoded = np.where(
        linear <= 0.0031308,
        12.92 * linear,
        1.055 * linear ** (1 / 2.4) - 0.055,
    )
    return np.round(255 * encoded).astype(np.uint8)
