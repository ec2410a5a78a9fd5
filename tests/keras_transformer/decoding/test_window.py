"""Decoding with an attention window, against full passes.

Self-attention then has a cache of its r + 1 steps, which it overwrites.
"""

import functools

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding.test_translate import SOURCE, model_with

CAPACITY = 40
LIMITS = np.array([[CAPACITY, CAPACITY, 7], [CAPACITY, 20, 1]], "int32")


def in_buckets(model, source, *lengths):
    config = kt.BeamSearchConfig(beam_size=3, alpha=0.0)
    constraints = kt.Constraints(*lengths)
    return kt.translate_ids(model, source, CAPACITY, constraints, config)[:2]


def in_a_shrinking_batch(model, source, *lengths):
    import tensorflow as tf

    def run(source, *lengths):
        return kt.translate_ids(
            model,
            source,
            tf.reduce_max(lengths[0]),
            kt.Constraints(*lengths),
            kt.BeamSearchConfig(beam_size=3, alpha=0.0),
            shrink_batch=True,
        )[:2]

    ids, counts = (tf.TensorSpec([None] * n, tf.int32) for n in (2, 1))
    run = tf.function(run, input_signature=[ids, counts, counts])
    return run(source, *lengths)


@pytest.mark.parametrize(
    "window, search",
    [
        # The cache is overwritten many times.
        (5, in_buckets),
        # And only after it has been extended.
        (35, in_buckets),
        pytest.param(
            *(35, in_a_shrinking_batch),
            marks=pytest.mark.skipif(helpers.JITTED, reason="of TensorFlow"),
        ),
    ],
)
def test_a_search_finds_the_scores_of_a_full_pass(window, search):
    model = model_with(attention_window=window)
    run = helpers.jitted(functools.partial(search, model))
    arrays = map(ops.convert_to_tensor, (SOURCE, *LIMITS))
    tokens, scores = map(helpers.to_numpy, run(*arrays))
    best = tokens[:, 0].astype("int32")
    assert np.count_nonzero(best, axis=1)[0] == CAPACITY
    # Whose self-attention has a mask and no cache.
    expected = helpers.jitted(functools.partial(kt.score_ids, model))(
        ops.convert_to_tensor(SOURCE), ops.convert_to_tensor(best)
    )
    np.testing.assert_allclose(
        scores[:, 0], helpers.to_numpy(expected), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("steps, kept", [(3, 3), (6, 6), (7, 6), (4096, 6)])
def test_a_cache_has_the_window_and_its_own_step(steps, kept):
    decoder = model_with(attention_window=5).beam_decoder(2)
    state = decoder.start(SOURCE, steps)
    for cache in state.caches:
        assert cache.keys.shape == (3, 2, kept, 2 * 3)
        assert cache.values.shape == (3, 2, kept, 2 * 5)
    assert state.ancestry.shape == (3, 2, kept, 2)
    extended = decoder.extend_cache(state, steps + 100)
    assert {cache.keys.shape[2] for cache in extended.caches} == {6}
