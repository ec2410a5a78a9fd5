"""Attention between words against sums and means by hand, and rounded."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from export.attention_views.rendering import WEIGHT_SCALE, round_rows
from export.attention_views.word_attention import merge_pieces
from tests.export.attention_views import attended

TEXT = "The animal 😀!"
SOURCE = ("▁The", "▁anim", "al", "▁", "😀", "!", "</s>")
TARGET = ("▁L", "'", "an", "imal", "▁!", "</s>")


def merge(translation, target, inputs=None, **changes):
    maps = attended.maps(
        *(TEXT, translation), source=SOURCE, target=target, inputs=inputs
    )
    return maps, merge_pieces(dataclasses.replace(maps, **changes))


def test_keys_are_summed_and_queries_averaged():
    maps, merged = merge("L'animal !", TARGET)
    for kind in ("encoder", "decoder", "cross"):
        actual = getattr(merged, kind)
        assert actual.dtype == np.float32
        expected = attended.by_words(maps, kind)
        np.testing.assert_allclose(actual, expected, atol=1e-6)
        np.testing.assert_allclose(actual.sum(axis=-1), 1.0, atol=1e-6)
    assert merged.source_tokens == ("The", "animal", "😀!", "</s>")
    assert merged.target_tokens == ("L'animal", "!", "</s>")
    assert merged.target_inputs == ("<s>", "L'animal", "!")


def test_a_translation_without_end_and_an_empty_one():
    """The last piece was predicted, and never an input."""
    _, merged = merge("a bc", ("▁a", "▁b", "c"), ("<s>", "▁a", "▁b"))
    assert merged.target_tokens == ("a", "bc")
    assert merged.target_inputs == ("<s>", "a", "bc")
    np.testing.assert_allclose(merged.decoder.sum(axis=-1), 1.0, atol=1e-6)
    _, merged = merge("", ("</s>",))
    assert merged.target_tokens == ("</s>",)


def test_a_piece_of_two_words_counts_half_for_each():
    """Control pieces' names in text are words; one without a piece is none."""
    maps = attended.maps("", "x", source=("▁a▁<s>", "b", "</s>"))
    maps = dataclasses.replace(
        maps,
        text="a <s>b \x07 </s>",
        source_words=np.array([[0, 1], [1, 1], [-1, -1]]),
    )
    merged = merge_pieces(maps)
    assert merged.source_tokens == ("a", "<s>b", "</s>")
    cross = maps.cross.astype(float)
    half = cross[..., 0] / 2
    expected = np.stack([half, half + cross[..., 1], cross[..., 2]], axis=-1)
    np.testing.assert_allclose(merged.cross, expected, atol=1e-6)
    np.testing.assert_allclose(merged.encoder.sum(axis=-1), 1.0, atol=1e-6)


def test_a_tag_that_attends_to_nothing_is_not_in_the_mean():
    """As the target's, which the encoder of language pairs does not get."""
    maps = attended.maps("ba", "x", source=(">>fr<<", "▁b", "a", "</s>"))
    encoder = maps.encoder.copy()
    encoder[..., 0, :] = 0
    maps = dataclasses.replace(
        maps,
        encoder=encoder,
        source_words=np.array([[0, 0], [0, 0], [0, 0], [-1, -1]]),
    )
    merged = merge_pieces(maps).encoder
    np.testing.assert_allclose(merged.sum(axis=-1), 1.0, atol=1e-6)
    end = encoder[..., 1:3, 3].mean(axis=-1)
    np.testing.assert_allclose(merged[..., 0, 1], end, atol=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=120).filter(sum))
def test_rounded_rows_keep_their_sum_and_are_near(weights):
    exact = np.array(weights) / np.sum(weights)
    # As the model gives them.
    found = round_rows(exact.astype(np.float32)[None])
    assert found.dtype == np.uint16
    assert found.sum() == WEIGHT_SCALE
    assert (np.abs(found[0] - WEIGHT_SCALE * exact) <= 1.01).all()
    assert (found[0][exact == 0] == 0).all()


def test_a_row_without_attention_stays_zero():
    assert round_rows([[0.0, 0.0]]).tolist() == [[0, 0]]
