"""Attention between words, against sums and means by hand."""

import dataclasses

import numpy as np

from export.attention_views.reader import AttentionMaps
from export.attention_views.words import merged_words
from tests.export.attention_views import attended

SOURCE = ("▁The", "▁anim", "al", "▁", "😀", "!", "</s>")
TARGET = ("▁L", "'", "an", "imal", "▁!", "</s>")
INPUTS = ("<s>", *TARGET[:-1])
# Which word each piece is of.
SOURCE_WORDS = [[0], [1, 2], [3, 4, 5], [6]]
TARGET_WORDS = [[0, 1, 2, 3], [4], [5]]
INPUT_WORDS = [[0], [1, 2, 3, 4], [5]]


def _distributions(queries, keys, causal=False):
    generator = np.random.default_rng(len(queries) + len(keys))
    weights = generator.random((2, 3, len(queries), len(keys)))
    if causal:
        weights = np.tril(weights)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype("float32")


def _maps(
    source=SOURCE, target=TARGET, inputs=INPUTS, translation="L'animal !"
):
    return AttentionMaps(
        text="The animal 😀!",
        translation=translation,
        source_tokens=source,
        target_tokens=target,
        target_inputs=inputs,
        encoder=_distributions(source, source),
        decoder=_distributions(target, inputs, causal=True),
        cross=_distributions(target, source),
        source_words=attended.numbers(source),
        target_words=attended.numbers(target),
    )


def _by_hand(weights, queries, keys):
    merged = np.zeros((2, 3, len(queries), len(keys)))
    for place in np.ndindex(*merged.shape):
        layer, head, query, key = place
        rows = [
            sum(float(weights[layer, head, q, k]) for k in keys[key])
            for q in queries[query]
        ]
        merged[place] = sum(rows) / len(rows)
    return merged


def test_keys_are_summed_and_queries_averaged():
    maps = _maps()
    merged = merged_words(maps)
    sides = {
        "encoder": (SOURCE_WORDS, SOURCE_WORDS),
        "decoder": (TARGET_WORDS, INPUT_WORDS),
        "cross": (TARGET_WORDS, SOURCE_WORDS),
    }
    for kind, (queries, keys) in sides.items():
        actual = getattr(merged, kind)
        expected = _by_hand(getattr(maps, kind), queries, keys)
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, atol=1e-6)
        np.testing.assert_allclose(actual.sum(axis=-1), 1.0, atol=1e-6)
    assert (merged.decoder[..., 0, 2] == 0).all()


def test_words_read_as_text():
    merged = merged_words(_maps())
    assert merged.source_tokens == ("The", "animal", "😀!", "</s>")
    assert merged.target_tokens == ("L'animal", "!", "</s>")
    assert merged.target_inputs == ("<s>", "L'animal", "!")
    assert merged.text == "The animal 😀!"


def test_an_output_that_reached_no_end():
    """Its last piece was given, and never an input."""
    merged = merged_words(
        _maps(SOURCE, ("▁a", "▁b", "c"), ("<s>", "▁a", "▁b"), "a bc")
    )
    assert merged.target_tokens == ("a", "bc")
    assert merged.target_inputs == ("<s>", "a", "bc")
    assert merged.decoder.shape == (2, 3, 2, 3)
    np.testing.assert_allclose(merged.decoder.sum(axis=-1), 1.0, atol=1e-6)


def test_an_empty_translation_is_its_end():
    merged = merged_words(
        _maps(target=("</s>",), inputs=("<s>",), translation="")
    )
    assert merged.target_tokens == ("</s>",)
    assert merged.cross.shape == (2, 3, 1, 4)


def test_a_piece_of_two_words_counts_half_for_each():
    """Control pieces' names in text are words; one without a piece is none."""
    maps = _maps(("▁a▁<s>", "b", "</s>"), ("▁x", "</s>"), ("<s>", "▁x"), "x")
    maps = dataclasses.replace(
        maps,
        text="a <s>b \x07 </s>",
        source_words=np.array([[0, 1], [1, 1], [-1, -1]]),
    )
    merged = merged_words(maps)
    assert merged.source_tokens == ("a", "<s>b", "</s>")
    cross = maps.cross.astype(float)
    half = cross[..., 0] / 2
    expected = np.stack([half, half + cross[..., 1], cross[..., 2]], axis=-1)
    np.testing.assert_allclose(merged.cross, expected, atol=1e-6)
    np.testing.assert_allclose(merged.encoder.sum(axis=-1), 1.0, atol=1e-6)
