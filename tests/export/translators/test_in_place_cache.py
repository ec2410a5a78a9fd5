"""The cache that is written where it stands against the one that is copied."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export.translators.graph_translator import InPlaceKVCache

BATCH, HEADS, STEPS, BEAMS, WIDTHS = 2, 3, 5, 4, (6, 8)
MOST = 8


def heads_of(step):
    generator = np.random.default_rng(step)
    return [
        tf.constant(generator.normal(size=(BATCH, HEADS, BEAMS, width)))
        for width in WIDTHS
    ]


def written_in_a_loop(kind, steps, overwrite=False):
    """The cache, and its keys before the last write."""

    @tf.function
    def run(count):
        shapes = [(BATCH, HEADS, STEPS, BEAMS * width) for width in WIDTHS]
        cache = kind(*[tf.zeros(shape, tf.float64) for shape in shapes])

        def body(index, cache, copies):
            keys, values = (
                tf.gather(tf.stack(each), index)
                for each in zip(*map(heads_of, range(MOST)))
            )
            written = cache.update(keys, values, index % STEPS, overwrite)
            # What was read before a write must not change with it.
            return index + 1, written, cache.keys

        _, cache, before = tf.while_loop(
            lambda index, cache, before: index < count,
            body,
            (0, cache, cache.keys),
        )
        return cache, before

    return run(tf.constant(steps))


@pytest.mark.parametrize("steps, overwrite", [(3, False), (MOST, True)])
def test_it_holds_what_the_copied_one_does(steps, overwrite):
    ours, before = written_in_a_loop(InPlaceKVCache, steps, overwrite)
    theirs, expected_before = written_in_a_loop(kt.KVCache, steps, overwrite)
    for one, other in zip((*ours, before), (*theirs, expected_before)):
        np.testing.assert_array_equal(one, other)
    for step in range(max(steps - STEPS, 0), steps):
        for part, heads in zip(ours, heads_of(step)):
            place = tf.reshape(part[:, :, step % STEPS], heads.shape)
            np.testing.assert_array_equal(place, heads)
    np.testing.assert_array_equal(ours.values[:, :, steps:], 0.0)
