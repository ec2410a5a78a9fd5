"""Searches in buckets and with a shrinking batch, against one loop."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding import translate
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

CAPACITY = bt.CAPACITY
TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs"
)
FREE, GRAMMAR = bt.config(3), bt.config(3, grammar=bt.AUTOMATON)


class TableDecoder:
    """A decoder by tables, whose state has a cache of the right capacity."""

    def __init__(self, tables, watch=lambda tokens: None):
        self.tables = tables
        self.watch = watch

    def start(self, source, capacity, memory):
        numbers = ops.zeros((ops.shape(self.tables)[0], 3), dtype="int32")
        cache = ops.zeros((ops.shape(self.tables)[0], capacity))
        return self.tables, numbers, cache

    def step(self, tokens, parents, index, state):
        self.watch(tokens)
        tables, numbers, cache = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers, cache)

    def extend_cache(self, state, capacity):
        tables, numbers, cache = state
        shape = ops.shape(cache)[0], capacity - ops.shape(cache)[1]
        cache = ops.concatenate([cache, ops.zeros(shape)], axis=1)
        return tables, numbers, cache


def search(tables, constraints, capacity, config, **options):
    decoder = TableDecoder(tables, options.pop("watch", lambda tokens: None))
    return kt.translate_ids(
        *(None, None, capacity, constraints, config),
        decoder=decoder,
        **options,
    )[:2]


@functools.cache
def bucketed(buckets, config):
    def run(tables, constraints):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(translate, "_BUCKETS", buckets)
            return search(tables, constraints, CAPACITY, config)

    return helpers.jitted(run)


@functools.cache
def shrinking(segment, config, watch=lambda tokens: None):
    import tensorflow as tf

    def traced(tables, constraints, capacity):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(translate, "_SEGMENT", segment)
            return search(
                *(tables, constraints, capacity, config),
                shrink_batch=True,
                watch=watch,
            )

    graph = tf.function(traced, autograph=False, reduce_retracing=True)

    def run(tables, constraints, capacity=CAPACITY):
        # The number of sentences must be open.
        specs = tree.map_structure(
            lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype),
            (tables, constraints),
        )
        specs = (*specs, tf.TensorSpec([], tf.int32))
        return graph.get_concrete_function(*specs)(
            *tree.flatten((tables, constraints)), tf.constant(capacity)
        )

    return run


@pytest.mark.parametrize(
    "find",
    [
        functools.partial(bucketed, (2, 3)),
        pytest.param(functools.partial(shrinking, 1), marks=TENSORFLOW),
        pytest.param(functools.partial(shrinking, 3), marks=TENSORFLOW),
    ],
    ids=["buckets", "segments of 1", "segments of 3"],
)
@pytest.mark.parametrize("config", [FREE, GRAMMAR], ids=["free", "grammar"])
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_finds_what_one_loop_finds(find, config, seed):
    tables, constraints = bt.generate(seed, config.grammar)
    expected = bt.search(tables, constraints, CAPACITY, config)
    run = find(config)
    found = run(ops.convert_to_tensor(tables), bt.as_tensors(constraints))
    bt.assert_same(found, expected)


@TENSORFLOW
@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        # Most would be computed in vain for the rest of the segment.
        ([1] * 12 + [6] * 4, [16, 4, 4, 4, 4, 4]),
        # To remove one would cost more than its last step.
        ([5] + [6] * 15, [16, 16, 16, 16, 16, 16]),
    ],
)
def test_sentences_are_removed_when_it_pays(limits, rows):
    import tensorflow as tf

    seen = []

    def watch(tokens):
        tf.numpy_function(seen.append, [ops.shape(tokens)[0]], [])

    config = bt.config(3, stop_criterion="max_length")
    tables = ops.convert_to_tensor(bt.random_tables(1, len(limits), 6))
    constraints = kt.Constraints(ops.convert_to_tensor(np.int32(limits)))
    shrinking(6, config, watch)(tables, constraints, 6)
    assert seen == rows
