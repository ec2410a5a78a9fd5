"""Alignments traced during a search, against those of given translations."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.alignment import (
    AlignmentTrace,
    gather_alignments,
)
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding.test_translate import SOURCE

END = 3
TARGET = np.array([[6, 4, 3, 0], [3, 0, 0, 0], [9, 9, 5, 3]], "int32")


def test_beams_of_one_token_are_told_apart_by_their_parents():
    """Both beams of the last step were given 6: after 4, and after 5."""
    trace = AlignmentTrace(
        tokens=ops.convert_to_tensor([[[2, 2], [4, 5], [6, 6]]], "int32"),
        parents=ops.convert_to_tensor([[[0, 0], [0, 0], [0, 1]]], "int32"),
        attention=ops.reshape(ops.arange(6, dtype="float32"), (1, 3, 2)),
    )
    tokens = ops.convert_to_tensor([[[5, 6, END], [4, 6, END]]], "int32")
    found = helpers.to_numpy(gather_alignments(trace, tokens))
    np.testing.assert_array_equal(found[0, :, :, 0], [[0, 3, 5], [0, 2, 4]])


def test_given_translations_against_the_attention_of_the_model():
    """Row t is from the step that generates token t, the mean of heads."""
    model = helpers.variant("paper")
    begin = np.full((3, 1), 2, "int32")
    shifted = np.concatenate([begin, TARGET[:, :-1]], 1)
    expected = model.attention({"source": SOURCE, "target": shifted})
    # None is the last but one of two.
    for layer, number in ((None, 0), (1, 0), (2, 1)):
        aligned = kt.force_align(model, SOURCE, TARGET, layer)
        aligned = helpers.to_numpy(aligned)
        mean = helpers.to_numpy(expected["cross"][number]).mean(axis=1)
        # Not where the input is the end, and the output padding.
        real = TARGET != 0
        np.testing.assert_allclose(aligned[real], mean[real], atol=1e-6)
        np.testing.assert_allclose(aligned[real].sum(axis=1), 1.0, atol=1e-5)
        assert not aligned[~real].any() and not aligned[1, :, 2:].any()
    for layer in (0, 3):
        with pytest.raises(ValueError, match="layer must be from 1 to"):
            kt.force_align(model, SOURCE, TARGET, layer)


def test_layer_and_heads_are_those_of_the_configuration():
    """Of each model of an ensemble, too."""
    shape = {"num_layers": 3, "num_heads": 3, "d_model": 4, "d_ff": 4}
    scores = np.random.default_rng(1).random((3, 2, 3, 5, 4), "float32")
    models, expected = [], []
    for layer, index, heads in ((-2, 1, 0), (-1, 2, 1), (1, 0, 2), (3, 2, 3)):
        models.append(
            kt.Transformer(
                helpers.config(
                    **shape, alignment_layer=layer, alignment_heads=heads
                )
            )
        )
        expected.append(scores[index][:, : heads or 3].mean(axis=1))
        found = models[-1].alignment(scores)
        np.testing.assert_allclose(found, expected[-1], atol=1e-6)
    found = kt.Ensemble(models).alignment([scores] * 4)
    np.testing.assert_allclose(found, np.mean(expected, 0), atol=1e-6)
    one_layer = helpers.config(num_layers=1)
    assert one_layer.alignment_attention == (1, one_layer.num_heads)


@pytest.mark.skipif(helpers.JITTED, reason="JAX has no float64 by default")
def test_a_search_of_float64_is_aligned():
    model = kt.Transformer(helpers.config(), dtype="float64")
    found = kt.translate_ids(model, SOURCE, 4, trace_alignments=True)
    aligned = helpers.to_numpy(gather_alignments(found.state, found.tokens))
    real = helpers.to_numpy(found.tokens) != 0
    np.testing.assert_allclose(aligned[real].sum(axis=-1), 1.0, atol=1e-5)
