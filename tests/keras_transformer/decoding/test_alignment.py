"""Alignments traced during a search, against those of given translations."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.alignment import (
    AlignmentTrace,
    gather_alignments,
)
from keras_transformer.decoding.translate import output_limits
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt
from tests.keras_transformer.decoding.test_translate import (
    CAPACITY,
    SOURCE,
    model_with,
    two_models,
)

END = 3
TARGET = np.array([[6, 4, 3, 0], [3, 0, 0, 0], [9, 9, 5, 3]], "int32")


def assert_aligned(model, source, found):
    """Compares the alignments of all hypotheses with `kt.force_align`."""
    alignments = gather_alignments(found.state, found.tokens)
    alignments = helpers.to_numpy(alignments)
    tokens = helpers.to_numpy(found.tokens).astype("int32")
    scores = helpers.to_numpy(found.scores)
    assert alignments.shape == (*tokens.shape, source.shape[1])
    compared = 0
    for beam in range(tokens.shape[1]):
        expected = kt.force_align(model, source, tokens[:, beam])
        expected = helpers.to_numpy(expected)
        for row in np.flatnonzero(scores[:, beam] > -1e8):
            length = len(bt.as_tuple(tokens[row, beam]))
            np.testing.assert_allclose(
                alignments[row, beam, :length],
                expected[row, :length],
                atol=1e-5,
            )
            compared += 1
    assert compared > len(source)


# 40 steps take two buckets.
@pytest.mark.parametrize(
    "several, capacity", [(False, CAPACITY), (False, 40), (True, CAPACITY)]
)
def test_every_hypothesis_has_its_own(several, capacity):
    model = kt.Ensemble(two_models()) if several else model_with()
    source = ops.convert_to_tensor(SOURCE)
    limits = ops.minimum(output_limits(source, 20), capacity)
    found = kt.translate_ids(
        model, source, capacity, limits, trace_alignments=True
    )
    assert_aligned(model, SOURCE, found)
    bt.assert_same(found, kt.translate_ids(model, source, capacity, limits))


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


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="needs open shapes"
)
def test_with_a_shrinking_batch():
    """Sentences leave at different times and take their trace along."""
    import tensorflow as tf

    model = model_with()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        limits = output_limits(source, 20)
        capacity = tf.maximum(tf.reduce_max(limits), 1)
        return kt.translate_ids(
            *(model, source, capacity, limits),
            shrink_batch=True,
            trace_alignments=True,
        )

    long = np.concatenate([SOURCE, SOURCE[:1] + 1, SOURCE[2:]], axis=0)
    long[3] = [4, 5, 6, 7, END]
    for source in (long, SOURCE[1:2, :2]):
        assert_aligned(model, source, run(source))
    for source, steps in ((SOURCE[:0], 1), (SOURCE, 0)):
        found = run(source)
        tokens = found.tokens[:, :, :steps]
        alignments = gather_alignments(found.state, tokens)
        assert alignments.shape == (len(source), 3, steps, 5)


def test_given_translations_against_the_attention_of_the_model():
    """Row t is from the step that generates token t, the mean of heads."""
    model = helpers.variant("paper")
    begin = np.full((3, 1), 2, "int32")
    shifted = np.concatenate([begin, TARGET[:, :-1]], 1)
    expected = model.attention({"source": SOURCE, "target": shifted})
    found = kt.attention_scores(model, SOURCE, TARGET)
    assert found.keys() == expected.keys()
    for kind, layers in found.items():
        for actual, wanted in zip(layers, expected[kind], strict=True):
            wanted = helpers.to_numpy(wanted)
            assert np.array_equal(helpers.to_numpy(actual), wanted)
    num_layers = model.config.num_layers
    # None is the last but one.
    for layer in (None, *range(1, num_layers + 1)):
        aligned = kt.force_align(model, SOURCE, TARGET, layer)
        aligned = helpers.to_numpy(aligned)
        number = (layer or max(num_layers - 1, 1)) - 1
        mean = helpers.to_numpy(expected["cross"][number]).mean(axis=1)
        # Rows at padding are nobody's, and 0 in `attention` alone.
        real = shifted != 0
        np.testing.assert_allclose(aligned[real], mean[real], atol=1e-6)
        np.testing.assert_allclose(aligned[real].sum(axis=1), 1.0, atol=1e-5)
        assert not aligned[1, :, 2:].any()


@pytest.mark.parametrize("layer", [0, 99])
def test_refuses_a_layer_that_does_not_exist(layer):
    with pytest.raises(ValueError, match="layer must be from 1 to"):
        kt.force_align(helpers.variant("paper"), SOURCE, TARGET, layer)
