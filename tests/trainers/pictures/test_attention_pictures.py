"""Pictures of attention, read back pixel by pixel."""

import dataclasses

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from export.attention_views.reader import AttentionMaps
from trainers.pictures import attention_pictures
from trainers.pictures.attention_pictures import (
    KINDS,
    MOST_TOKENS,
    WIDTH,
    label_of,
    layer_picture,
    overview_picture,
)

INK = 330  # the sum of a dark pixel's colours is lower
HEAD = 40  # title and legend are higher


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
        source_words=np.zeros((sources, 2), int),
        target_words=np.zeros((targets, 2), int),
    )


def _legend(picture):
    """int [N, 3]: the colours that the picture says weights 0 to 1 have."""
    row = np.asarray(picture).astype(int)[10]
    (start, end) = max(_runs(row[:, 2] > row[:, 0]), key=np.ptp)
    # Its frame is bluish as well.
    return row[start + 1 : end - 1]


def _weights(picture, places):
    """Reads weights off colours by the legend; places (x, y) are [..., 2]."""
    legend = _legend(picture)
    columns, rows = np.moveaxis(places, -1, 0)
    colours = np.asarray(picture).astype(int)[rows, columns]
    far = np.abs(colours[..., None, :] - legend).sum(axis=-1)
    # As near as the legend's own steps are to each other.
    assert far.min(axis=-1).max() <= 6
    return far.argmin(axis=-1) / (len(legend) - 1)


def _lightness(rgb):
    """CIE L*."""
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


def test_the_legend_is_equal_steps_from_light_to_dark():
    legend = _legend(overview_picture(_maps(), "cross"))
    assert len(legend) >= 50
    lightness = _lightness(legend[:: len(legend) // 10].astype(float))
    steps = -np.diff(lightness)
    assert lightness[0] > 96
    assert _lightness(legend[-1].astype(float)) < 25
    assert steps.min() > 0.75 * steps.mean()
    assert steps.max() < 1.25 * steps.mean()


def test_colours_stay_inside_what_a_screen_can_show():
    """Where a channel is clipped, neighbours look the same."""
    legend = _legend(overview_picture(_maps(), "cross"))
    assert (np.diff(legend, axis=0) <= 0).all()
    assert legend.min() > 0
    assert legend.max() < 255


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


def _random_maps(kind):
    maps = _maps(sources=4, targets=3, layers=2, heads=3)
    weights = np.random.default_rng(3).random(getattr(maps, kind).shape)
    return dataclasses.replace(maps, **{kind: weights.astype(np.float32)})


@pytest.mark.parametrize("kind", KINDS)
def test_weights_can_be_read_off_the_colours(kind):
    maps = _random_maps(kind)
    weights = getattr(maps, kind)[1]
    first = _place(kind, 0, 0, 0)
    wide = _place(kind, 0, 0, 1) - first
    high = _place(kind, 0, 1, 0) - first
    beside = _place(kind, 1, 0, 0) - first
    heads, rows, columns = np.indices(weights.shape)[..., None]
    places = first + heads * beside + rows * high + columns * wide
    read = _weights(layer_picture(maps, kind, 2), places)
    assert np.abs(read - weights).max() < 0.01


def test_the_overview_shows_the_weights():
    weights = np.zeros((3, 5, 4, 4), np.float32)
    weights[2, 3] = np.linspace(0, 1, 16).reshape(4, 4)
    picture = overview_picture(
        dataclasses.replace(_maps(), encoder=weights), "encoder"
    )
    frames = _frames(picture)
    (left, right), (top, bottom) = frames[0][3], frames[1][2]
    middles = (np.arange(4) + 0.5) / 4
    rows, columns = np.meshgrid(
        top + middles * (bottom - top),
        left + middles * (right - left),
        indexing="ij",
    )
    read = _weights(picture, np.stack([columns, rows], axis=-1).astype(int))
    assert np.abs(read - weights[2, 3]).max() < 0.01


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


def _frames(picture):
    """Starts and ends of framed heads, from left to right and downwards."""
    pixels = np.asarray(picture).astype(int)[HEAD:]
    frame = (pixels == [200, 202, 208]).all(axis=2)
    row = next(line for line in frame if line.sum() > 100)
    column = next(line for line in frame.T if line.sum() > 100)
    downwards = [(a + HEAD, b + HEAD) for a, b in _runs(column)]
    return _runs(row), downwards


def test_the_overview_has_every_head_of_every_layer():
    across, downwards = _frames(
        overview_picture(_maps(layers=3, heads=5), "encoder")
    )
    assert len(across) == 5
    assert len(downwards) == 3


@pytest.fixture
def no_other_fonts(monkeypatch):
    """As on a machine without any font."""
    monkeypatch.setattr(attention_pictures, "_OTHERS", ())
    attention_pictures._fonts.cache_clear()
    yield
    attention_pictures._fonts.cache_clear()


def _ink(text, font):
    picture = Image.new("L", (120, 24), "white")
    ImageDraw.Draw(picture).text((2, 12), text, 0, font, anchor="lm")
    return np.asarray(picture) < INK // 3


@pytest.mark.parametrize(
    "text", ["é", "œ", "ß", "Ж", "ў", "λ", "ő", "ș", "שלום", "العربية", "“"]
)
def test_letters_of_many_scripts_are_shown(text, no_other_fonts):
    label = label_of(text)
    assert label.is_readable
    assert label.text == text
    shown = _ink(label.text, label.font)
    assert shown.any()
    for letter in text:
        box = _ink("\uffff", label.font)
        assert not np.array_equal(_ink(letter, label.font), box)


def test_a_letter_that_no_font_has_stands_as_its_code_point(no_other_fonts):
    label = label_of("a你")
    assert label.text == "aU+4F60"
    assert not label.is_readable
    picture = layer_picture(_maps(token="你"), "cross", 1)
    plain = layer_picture(_maps(token="U+4F60"), "cross", 1)
    # One more line says so, and the rest is the same.
    assert picture.height > plain.height
    end = plain.height - 8
    assert np.array_equal(np.asarray(picture)[:end], np.asarray(plain)[:end])


def test_a_font_of_the_machine_is_taken_where_ours_lacks_letters(
    monkeypatch, tmp_path
):
    """With Pillow's Latin font in place of ours, and ours as the machine's."""
    latin = ImageFont.load_default(10)
    (tmp_path / "latin.ttf").write_bytes(latin.path.getvalue())
    ours = str(attention_pictures._FONT)
    monkeypatch.setattr(attention_pictures, "_FONT", tmp_path / "latin.ttf")
    monkeypatch.setattr(attention_pictures, "_OTHERS", ("no.ttf", ours))
    attention_pictures._fonts.cache_clear()
    labels = [label_of(token) for token in ("a", "λ")]
    attention_pictures._fonts.cache_clear()
    assert all(label.is_readable for label in labels)
    names = [label.font.getname()[0] for label in labels]
    assert names == [latin.getname()[0], "DejaVu Sans"]


def test_a_label_is_cut_to_its_room():
    text, font, _ = label_of("▁Donaudampfschifffahrtsgesellschaft")
    assert text.startswith("_Donau") and text.endswith("…")
    assert 60 < font.getlength(text) <= 76


def test_labels_of_columns_are_those_of_rows_turned():
    picture = layer_picture(_maps(token="▁was", heads=1), "encoder", 1)
    ink = np.asarray(picture).sum(axis=2) < INK
    (x, y) = min(_dark_cells(picture))
    label = ink[y - 6 : y + 6, : x - 12]
    # Between "head 1" and the frame.
    turned = np.rot90(ink[HEAD + 21 : y - 8, x - 6 : x + 6], -1)
    trimmed = [
        each[np.ix_(each.any(1), each.any(0))] for each in (label, turned)
    ]
    assert trimmed[0].any()
    assert np.array_equal(*trimmed)
