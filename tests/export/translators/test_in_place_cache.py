"""The cache that is written in place against the one that is copied."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export.translators.graph_translator import InPlaceKVCache

BATCH, HEADS, STEPS, BEAMS, WIDTHS = 2, 3, 5, 4, (6, 8)
MAX_STEPS = 8


def keys_and_values(step):
    generator = np.random.default_rng(step)
    return [
        tf.constant(generator.normal(size=(BATCH, HEADS, BEAMS, width)))
        for width in WIDTHS
    ]


def write_in_a_loop(kind, steps, write):
    """Returns the cache, and its keys before the last write."""

    @tf.function
    def run(count):
        cache = kind.empty(BATCH, HEADS, STEPS, BEAMS, WIDTHS, "float64")

        def body(index, cache, copies):
            keys, values = (
                tf.gather(tf.stack(each), index)
                for each in zip(*map(keys_and_values, range(MAX_STEPS)))
            )
            written = getattr(cache, write)(keys, values, index % STEPS)
            # What was read before a write must not change with it.
            return index + 1, written, cache.keys

        _, cache, before = tf.while_loop(
            lambda index, cache, before: index < count,
            body,
            (0, cache, cache.keys),
        )
        return cache, before

    return run(tf.constant(steps))


@pytest.mark.parametrize(
    "write, steps", [("append", 3), ("overwrite", MAX_STEPS)]
)
def test_it_holds_what_the_copied_one_does(write, steps):
    cache, before = write_in_a_loop(InPlaceKVCache, steps, write)
    expected, expected_before = write_in_a_loop(kt.KVCache, steps, write)
    assert isinstance(cache, InPlaceKVCache)
    for one, other in zip(cache, expected):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(before, expected_before)
    for step in range(max(0, steps - STEPS), steps):
        for part, written in zip(cache, keys_and_values(step)):
            slot = tf.reshape(part[:, :, step % STEPS], written.shape)
            np.testing.assert_array_equal(slot, written)
    np.testing.assert_array_equal(cache.values[:, :, steps:], 0.0)
