"""Searches in buckets and with a shrinking batch, against one loop."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding.beam_search import (
    bucketed_beam_search,
    shrinking_batch_beam_search,
)
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

CAPACITY = bt.CAPACITY
TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs"
)
FREE, GRAMMAR = bt.config(3), bt.config(3, grammar=bt.AUTOMATON)


def assert_same_as_one_loop(seed, config, run):
    """Compares `run(tables, constraints)` with `kt.beam_search`."""
    tables, constraints = bt.generate(seed, config.grammar)
    expected = bt.search(tables, constraints, CAPACITY, config)
    found = run(ops.convert_to_tensor(tables), bt.as_tensors(constraints))
    bt.assert_same(found, expected)


@functools.cache
def bucketed(capacities, config):
    def step(tokens, parents, index, state):
        tables, numbers, room = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers, room)

    def extend_cache(state, capacity):
        assert state[2].shape[0] < capacity
        return (*state[:2], ops.zeros(capacity))

    def run(tables, constraints):
        numbers = ops.zeros((ops.shape(tables)[0], 3), dtype="int32")
        state = (tables, numbers, ops.zeros(capacities[0]))
        found = bucketed_beam_search(
            step, state, constraints, capacities, config, extend_cache
        )
        assert found.state[2].shape == (CAPACITY,)
        return found[:2]

    return helpers.jitted(run)


@pytest.mark.parametrize(
    "capacities, config",
    [
        ((CAPACITY,), FREE),
        ((2, 3, CAPACITY), FREE),
        ((1, CAPACITY), GRAMMAR),
    ],
)
@settings(max_examples=4)
@given(seed=bt.SEEDS)
def test_buckets_find_the_same(capacities, config, seed):
    assert_same_as_one_loop(seed, config, bucketed(capacities, config))


@functools.cache
def shrinking(segment, config, watch=lambda tokens: None):
    import tensorflow as tf

    def step(tokens, parents, index, state):
        watch(tokens)
        tables, numbers = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers)

    def extend_cache(state, capacity):
        assert capacity.dtype == tf.int32
        return state

    def search(tables, constraints, capacity):
        numbers = tf.zeros((tf.shape(tables)[0], config.beam_size), tf.int32)
        return shrinking_batch_beam_search(
            *(step, (tables, numbers), constraints, capacity, config),
            *(segment, extend_cache),
        )[:2]

    def run(tables, constraints, capacity=CAPACITY):
        # The number of sentences must be open.
        specs = tree.map_structure(
            lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype),
            (tables, constraints),
        )
        specs = (*specs, tf.TensorSpec([], tf.int32))
        graph = tf.function(search, input_signature=specs, autograph=False)
        return graph(tables, constraints, tf.constant(capacity))

    return run


@TENSORFLOW
@pytest.mark.parametrize(
    "segment, config", [(1, FREE), (2, FREE), (9, FREE), (1, GRAMMAR)]
)
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_a_shrinking_batch_finds_the_same(segment, config, seed):
    assert_same_as_one_loop(seed, config, shrinking(segment, config))


@TENSORFLOW
def test_no_sentence_at_all():
    tables = ops.zeros((0, 4, bt.VOCABULARY))
    limits = ops.zeros(0, "int32")
    tokens, scores = shrinking(2, FREE)(tables, kt.Constraints(limits), 3)
    assert (tokens.shape, scores.shape) == ((0, 3, 3), (0, 3))


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
