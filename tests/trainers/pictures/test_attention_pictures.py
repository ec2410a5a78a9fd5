"""Pictures of attention, read back pixel by pixel."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from export.attention_views.reader import AttentionMaps
from trainers.pictures import labels
from trainers.pictures.attention_pictures import (
    KINDS,
    MOST_TOKENS,
    WIDTH,
    layer_picture,
    overview_picture,
)
from trainers.pictures.labels import Label
from trainers.pictures.png import encode_png
from trainers.pictures.shades import shades

INK = 330  # the sum of a dark pixel's colours is lower


def _maps(sources=5, targets=4, layers=2, heads=4, token="▁x"):
    """Each query looks at one key: head h of row t at h + t."""

    def looking(queries, keys):
        weights = np.zeros((layers, heads, queries, keys), np.float32)
        for layer, head, row in np.ndindex(layers, heads, queries):
            weights[layer, head, row, (layer + head + row) % keys] = 1.0
        return weights

    target = (token,) * (targets - 1) + ("</s>",)
    return AttentionMaps(
        text="x",
        translation="y",
        source_tokens=(token,) * (sources - 1) + ("</s>",),
        target_tokens=target,
        target_inputs=("<s>", *target[:-1]),
        encoder=looking(sources, sources),
        decoder=looking(targets, targets),
        cross=looking(targets, sources),
    )


def _lightness(rgb):
    """CIE L*, another model of perception than the one of the shades."""
    encoded = rgb / 255.0
    linear = np.where(
        encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4
    )
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return 116 * np.cbrt(luminance) - 16


def _runs(flags):
    """[(start, end)] of True in a row."""
    edges = np.flatnonzero(np.diff([0, *flags.astype(int), 0]))
    return list(zip(edges[::2], edges[1::2]))


def _dark_cells(picture):
    """Middles (x, y) of what is as dark as a weight of 1."""
    pixels = np.asarray(picture).astype(int)
    found = (np.abs(pixels - shades(1.0).astype(int)) <= 2).all(axis=2)
    found[:32] = False  # the legend
    middles = set()
    for y, row in enumerate(found):
        for start, end in _runs(row):
            if end - start > 4 and not found[y - 1, start + 1]:
                high = next(
                    n for n, full in enumerate(found[y:, start + 1]) if not full
                )
                middles.add(((start + end) // 2, y + high // 2))
    return middles


def test_shades_are_equal_steps_from_light_to_dark():
    lightness = _lightness(shades(np.linspace(0, 1, 11)).astype(float))
    steps = -np.diff(lightness)
    assert lightness[0] > 96
    assert lightness[-1] < 25
    assert steps.min() > 0.75 * steps.mean()
    assert steps.max() < 1.25 * steps.mean()


def test_shades_stay_inside_what_a_screen_can_show():
    """Where a channel is clipped, neighbours look the same."""
    channels = shades(np.linspace(0, 1, 101)).astype(int)
    assert (np.diff(channels, axis=0) <= 0).all()
    assert channels[1:].min() > 0
    assert channels.max() < 255


def _place(kind, head, row, column):
    """Where the one weight of 1 is drawn."""
    maps = _maps(sources=4, targets=3, layers=2, heads=3)
    weights = np.zeros_like(getattr(maps, kind))
    weights[1, head, row, column] = 1.0
    maps = dataclasses.replace(maps, **{kind: weights})
    assert not _dark_cells(layer_picture(maps, kind, 1))
    (place,) = _dark_cells(layer_picture(maps, kind, 2))
    return np.array(place)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_has_its_cell(kind):
    """Keys go to the right, queries down, heads lie side by side."""
    rows, columns = getattr(_maps(4, 3), kind).shape[2:]
    first = _place(kind, 0, 0, 0)
    wide = (_place(kind, 0, 0, 1) - first)[0]
    high = (_place(kind, 0, 1, 0) - first)[1]
    assert wide >= 11
    assert high >= 11
    beside = 0
    for head in range(3):
        corner = _place(kind, head, 0, 0)
        assert tuple(corner - first) == (beside, 0)
        last = _place(kind, head, rows - 1, columns - 1)
        assert tuple(last - corner) == ((columns - 1) * wide, (rows - 1) * high)
        beside = (_place(kind, 1, 0, 0) - first)[0] * (head + 1)
    assert beside >= 3 * columns * wide


def test_pictures_are_as_wide_as_tensorboard_shows_them():
    for heads in (1, 4, 8, 16):
        maps = _maps(sources=12, targets=12, heads=heads)
        assert layer_picture(maps, "cross", 1).width == WIDTH
        assert overview_picture(maps, "cross").width == WIDTH


def test_a_long_sentence_is_cut_to_what_can_be_read():
    maps = _maps(sources=90, targets=70)
    picture = layer_picture(maps, "cross", 1)
    assert picture.width == WIDTH
    of_fit = layer_picture(_maps(MOST_TOKENS, MOST_TOKENS), "cross", 1)
    # Lines say what is left out; 70 rows would be three times as high.
    assert of_fit.height < picture.height < of_fit.height + 100


def test_the_overview_has_every_head_of_every_layer():
    maps = _maps(layers=3, heads=5)
    pixels = np.asarray(overview_picture(maps, "encoder")).astype(int)
    frame = (pixels == [200, 202, 208]).all(axis=2)
    frame[:40] = False
    row = next(line for line in frame if line.sum() > 100)
    assert len(_runs(row)) == 5


def _ink(label):
    picture = Image.new("RGB", (label.width + 4, 24), "white")
    label.draw(picture, 2, 12)
    return np.asarray(picture).sum(axis=2) < INK


@pytest.mark.parametrize(
    "text", ["é", "œ", "ß", "Ж", "ў", "λ", "ő", "ș", "שלום", "العربية", "“"]
)
def test_letters_of_many_scripts_are_shown(text, monkeypatch):
    """By our own font alone, for machines without any other."""
    monkeypatch.setattr(labels, "_OTHERS", ())
    labels._fonts.cache_clear()
    label = Label(text, 10)
    labels._fonts.cache_clear()
    assert label.is_readable
    assert (np.asarray(_ink(label)).sum()) > 0


def test_a_letter_that_no_font_has_stands_as_its_code_point(monkeypatch):
    monkeypatch.setattr(labels, "_OTHERS", ())
    labels._fonts.cache_clear()
    label, expected = Label("a你", 10), Label("aU+4F60", 10)
    picture = layer_picture(_maps(token="你"), "cross", 1)
    plain = layer_picture(_maps(token="U+4F60"), "cross", 1)
    labels._fonts.cache_clear()
    assert not label.is_readable
    assert np.array_equal(_ink(label), _ink(expected))
    # One more line says so.
    assert picture.height > plain.height


def test_a_label_is_cut_to_its_room():
    label = Label("▁Donaudampfschifffahrt", 10, 60)
    assert 50 < label.width <= 60


def test_turned_labels_are_the_same_letters():
    label = Label("▁was", 10)
    flat = Image.new("RGB", (60, 60), "white")
    turned = flat.copy()
    label.draw(flat, 10, 30)
    label.draw_upwards(turned, 30, 50)
    dark = [np.asarray(each).sum(axis=2) < INK for each in (flat, turned)]
    assert dark[0].sum() == pytest.approx(dark[1].sum(), abs=8)
    wide, high = (np.ptp(np.argwhere(each), axis=0) for each in dark)
    assert abs(wide - high[::-1]).max() <= 1


def test_the_file_holds_the_picture():
    picture = layer_picture(_maps(), "cross", 1)
    file = encode_png(picture)
    back = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    assert np.abs(back - np.asarray(picture)).max() <= 8
    weights = np.linspace(0, 1, 500)
    of_weights = np.tile(shades(weights), (2, 1, 1))
    file = encode_png(Image.fromarray(of_weights))
    back = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    assert np.abs(back - of_weights).max() <= 2
