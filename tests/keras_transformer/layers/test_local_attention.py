"""Restricted self-attention in blocks: against NumPy and the masked form."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.layers import local_attention
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.masks import AttentionMask
from tests.keras_transformer import helpers, reference

TOLERANCE = 1e-5
KINDS = ("free", "padding", "segments")


def blocks_of(least, long=0):
    """Context of another minimum block size and length of what is split."""
    return mock.patch.multiple(
        local_attention, _MIN_BLOCK_SIZE=least, _MIN_LENGTH_RATIO=long
    )


def heads(length):
    """Queries, keys and values, float32."""
    generator = np.random.default_rng(0)
    return [
        generator.normal(size=(2, 2, length, width)).astype("float32")
        for width in (3, 3, 5)
    ]


def masks(kind, length, causal):
    """An AttentionMask, and by row ids and segments that say the same."""
    generator = np.random.default_rng(length)
    ids, segments = np.ones((2, length), int), np.zeros((2, length), int)
    if kind != "free":
        ids = (generator.random((2, length)) < 0.8).astype(int)
    if kind == "segments":
        segments = np.cumsum(generator.random((2, length)) < 0.3, axis=1)
    mask = AttentionMask(
        keys=None if kind == "free" else ids != 0,
        segments=segments.astype("int32") if kind == "segments" else None,
        causal=causal,
    )
    return mask, ids, segments


@settings(max_examples=15)
@given(
    length=st.integers(1, 40),
    window=st.integers(1, 9),
    least=st.integers(1, 12),
    kind=st.sampled_from(KINDS),
    causal=st.booleans(),
)
@example(length=11, window=4, least=1, kind="padding", causal=False)
@example(length=12, window=4, least=1, kind="segments", causal=True)
@example(length=13, window=4, least=6, kind="padding", causal=True)
@example(length=129, window=5, least=64, kind="segments", causal=True)
def test_any_length_window_and_block(length, window, least, kind, causal):
    mask, ids, segments = masks(kind, length, causal)
    arrays = heads(length)

    def run(*arrays):
        parts = local_attention.split_into_blocks(*arrays, mask, window)
        outputs, _ = scaled_dot_product_attention(*parts)
        return local_attention.join_blocks(outputs, length)

    with blocks_of(least):
        outputs = helpers.to_numpy(helpers.jitted(run)(*arrays))
    assert np.isfinite(outputs).all()
    for row in range(2):
        allowed = reference.may_attend(
            ids[row], segments[row], segments[row], window, causal
        )
        some = allowed.any(axis=1)
        for head in range(2):
            parts = [part[row, head].astype("float64") for part in arrays]
            expected, _ = reference.attention(*parts, allowed)
            found = outputs[row, head]
            np.testing.assert_allclose(found[some], expected[some], 1e-5, 1e-5)


STATES = np.random.default_rng(1).normal(size=(2, 30, 12)).astype("float32")
WINDOW = 4


def layer_with_window(**changes):
    layer = kt.MultiHeadAttention(2, 3, 5, attention_window=WINDOW, **changes)
    layer.build(STATES.shape)
    helpers.randomise(layer, seed=12)
    return layer


def test_a_mask_for_each_query_and_weights_take_the_masked_form():
    layer, causal = layer_with_window(), np.tril(np.ones((1, 30, 30), bool))
    with blocks_of(1):
        expected = layer(STATES, attention_mask=AttentionMask(causal=True))
        by_query = layer(STATES, attention_mask=causal)
        outputs, _ = layer(
            STATES, attention_mask=causal, return_attention_scores=True
        )
    for each in (by_query, outputs):
        error = helpers.relative_error(each, helpers.to_numpy(expected))
        assert error <= TOLERANCE


@pytest.mark.skipif(helpers.JITTED, reason="JAX knows every length")
def test_one_graph_takes_short_and_long_rows():
    import tensorflow as tf

    layer = layer_with_window(dropout=0.5)

    def run(states):
        with tf.GradientTape() as tape:
            tape.watch(states)
            plain = layer(states)
            dropped = layer(states, training=True)
        return plain, dropped, tape.gradient(plain, states)

    with blocks_of(1, long=1):
        graph = tf.function(
            run, input_signature=[tf.TensorSpec((2, None, 12))]
        ).get_concrete_function()
    for length in (3, 13, 30):
        states = tf.constant(STATES[:, :length])
        plain, dropped, gradient = graph(states)
        with blocks_of(1, long=100):
            expected, _, wanted = map(helpers.to_numpy, run(states))
        assert helpers.relative_error(plain, expected) <= TOLERANCE
        assert helpers.relative_error(gradient, wanted) <= TOLERANCE
        assert np.abs(helpers.to_numpy(dropped) - expected).max() > 0.01


@pytest.mark.skipif(helpers.JITTED, reason="reads a graph of TensorFlow")
def test_nothing_in_a_model_is_as_large_as_all_pairs_of_positions():
    """Not even a mask: of 300 positions and a window of 2."""
    import tensorflow as tf

    model = kt.Transformer(helpers.config(attention_window=2, num_layers=1))
    long = tf.TensorSpec((1, 300), tf.int32)

    def run(ids, segments, source):
        packed = {"source": ids, "target": source}
        packed["source_segments"] = packed["source_positions"] = segments
        packed["target_segments"] = packed["target_positions"] = source
        with tf.GradientTape() as tape:
            logits = model(packed)
        return tape.gradient(logits, model.trainable_variables)

    ids = tf.TensorSpec((1, 4), tf.int32)
    graph = tf.function(run).get_concrete_function(long, long, ids)
    sizes = [
        (output.shape.num_elements() or 0, operation.name)
        for operation in graph.graph.get_operations()
        for output in operation.outputs
    ]
    # Two heads, blocks of 64, of 68 keys; all pairs would be 180,000.
    assert 2 * 5 * 64 * 68 <= max(sizes)[0] < 50_000, max(sizes)
