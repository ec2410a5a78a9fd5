"""Pictures of attention, read back pixel by pixel."""

import dataclasses

import numpy as np
import pytest
from PIL import ImageFont

from export.attention_views.word_attention import ATTENTION_KINDS
from tests.export.attention_views import attended
from trainers.pictures import attention_pictures
from trainers.pictures.attention_pictures import (
    MAX_TOKENS,
    WIDTH,
    draw_layer,
    token_label,
)

HEAD = 40  # title and legend are higher


def _maps(sources=5, targets=4, layers=2, heads=4, token="▁x"):
    """Random weights over the same token and an end."""
    source, target = (
        (*[token] * (length - 1), "</s>") for length in (sources, targets)
    )
    return attended.maps("x", "y", layers, heads, None, source, target)


def _maps_of(kind, weights):
    return dataclasses.replace(_maps(4, 3), **{kind: weights})


def _legend(picture):
    """int [N, 3]: the colors that the picture says weights 0 to 1 have."""
    row = np.asarray(picture).astype(int)[10]
    (start, end) = max(_runs(row[:, 2] > row[:, 0]), key=np.ptp)
    # Its frame is bluish as well.
    return row[start + 1 : end - 1]


def _weights(picture, places):
    """Reads weights off colors by the legend; places (x, y) are [..., 2]."""
    legend = _legend(picture)
    columns, rows = np.moveaxis(places, -1, 0)
    colors = np.asarray(picture).astype(int)[rows, columns]
    far = np.abs(colors[..., None, :] - legend).sum(axis=-1)
    # As near as the legend's own steps are to each other.
    assert far.min(axis=-1).max() <= 6
    return far.argmin(axis=-1) / (len(legend) - 1)


def _runs(flags):
    """Returns (start, end) of each run of True."""
    edges = np.flatnonzero(np.diff([0, *flags.astype(int), 0]))
    return list(zip(edges[::2], edges[1::2]))


def _dark_cells(picture):
    """Middles (x, y) of what is as dark as a weight of 1."""
    pixels = np.asarray(picture).astype(int)
    found = (np.abs(pixels - _legend(picture)[-1]) <= 2).all(axis=2)
    found[:HEAD] = False
    middles = set()
    for y, row in enumerate(found):
        for start, end in _runs(row):
            if end - start > 4 and not found[y - 1, start + 1]:
                high = next(
                    n for n, full in enumerate(found[y:, start + 1]) if not full
                )
                middles.add(((start + end) // 2, y + high // 2))
    return middles


def _place(kind, head, row, column):
    """Returns where the one weight of 1 is drawn."""
    weights = np.zeros((2, 3, *getattr(_maps(4, 3), kind).shape[2:]))
    weights[1, head, row, column] = 1.0
    maps = _maps_of(kind, weights)
    assert not _dark_cells(draw_layer(maps, kind, 1))
    (place,) = _dark_cells(draw_layer(maps, kind, 2))
    return np.array(place)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_every_weight_can_be_read_off_its_cell(kind):
    """Keys go to the right, queries down, heads lie side by side."""
    rows, columns = getattr(_maps(4, 3), kind).shape[2:]
    first = _place(kind, 0, 0, 0)
    right = _place(kind, 0, 0, 1) - first
    down = _place(kind, 0, 1, 0) - first
    next_head = _place(kind, 1, 0, 0) - first
    assert right[1] == down[0] == next_head[1] == 0
    assert right[0] >= 11 and down[1] >= 11
    assert next_head[0] >= columns * right[0]
    last = _place(kind, 2, rows - 1, columns - 1) - first
    expected = 2 * next_head + (rows - 1) * down + (columns - 1) * right
    assert tuple(last) == tuple(expected)
    weights = np.random.default_rng(3).random((2, 3, rows, columns))
    head, row, column = np.indices(weights.shape[1:])[..., None]
    places = first + head * next_head + row * down + column * right
    picture = draw_layer(_maps_of(kind, weights), kind, 2)
    assert np.abs(_weights(picture, places) - weights[1]).max() < 0.01


def test_pictures_are_as_wide_as_tensorboard_shows_them():
    assert draw_layer(_maps(12, 12, heads=16), "cross", 1).width == WIDTH
    truncated = draw_layer(_maps(sources=90, targets=70), "cross", 1)
    longest = draw_layer(_maps(MAX_TOKENS, MAX_TOKENS), "cross", 1)
    assert truncated.width == WIDTH
    # Notes say what is not shown; 70 rows would be three times as high.
    assert longest.height < truncated.height < longest.height + 100


@pytest.fixture
def no_other_fonts(monkeypatch):
    """As on a machine without any font."""
    monkeypatch.setattr(attention_pictures, "_SYSTEM_FONTS", ())
    attention_pictures._fonts.cache_clear()
    yield
    attention_pictures._fonts.cache_clear()


def test_letters_of_many_scripts_are_shown(no_other_fonts):
    for text in (*"éœßЖўλőș“", "שלום", "العربية"):
        label = token_label(text)
        assert (label.text, label.is_readable) == (text, True)
    text, font, _ = token_label("▁Donaudampfschifffahrtsgesellschaft")
    assert text.startswith("_Donau") and text.endswith("…")
    assert 60 < font.getlength(text) <= 76


def test_a_letter_that_no_font_has_stands_as_its_code_point(no_other_fonts):
    label = token_label("a你")
    assert label.text == "aU+4F60"
    assert not label.is_readable
    picture = draw_layer(_maps(token="你"), "cross", 1)
    plain = draw_layer(_maps(token="U+4F60"), "cross", 1)
    # One more line says so, and the rest is the same.
    assert picture.height > plain.height
    end = plain.height - 8
    assert np.array_equal(np.asarray(picture)[:end], np.asarray(plain)[:end])


def test_a_font_of_the_machine_has_other_letters(monkeypatch, tmp_path):
    """With Pillow's Latin font packaged, and ours as the machine's."""
    latin = ImageFont.load_default(10)
    (tmp_path / "latin.ttf").write_bytes(latin.path.getvalue())
    ours = str(attention_pictures._FONT)
    monkeypatch.setattr(attention_pictures, "_FONT", tmp_path / "latin.ttf")
    monkeypatch.setattr(attention_pictures, "_SYSTEM_FONTS", ("no.ttf", ours))
    attention_pictures._fonts.cache_clear()
    labels = [token_label(token) for token in ("a", "λ")]
    attention_pictures._fonts.cache_clear()
    assert all(label.is_readable for label in labels)
    names = [label.font.getname()[0] for label in labels]
    assert names == [latin.getname()[0], "DejaVu Sans"]
