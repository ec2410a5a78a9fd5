"""The search whose finished sentences leave against the one they stay in."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.beam_search import shrinking_batch_beam_search
from tests.keras_transformer.decoding import beam_tables as bt

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs"
)
ROOM = 6


@functools.cache
def search_of(segment, rules, watch=lambda tokens: None):
    import tensorflow as tf

    def step(tokens, parents, index, state):
        watch(tokens)
        tables, numbers = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers)

    def grow(state, room):
        assert room.dtype == tf.int32
        return state

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, bt.VOCABULARY], tf.float32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ]
    )
    def run(tables, limits, room):
        shape = (ops.shape(tables)[0], rules.beam_size)
        return shrinking_batch_beam_search(
            step,
            (tables, ops.zeros(shape, dtype="int32")),
            limits,
            room,
            rules,
            segment,
            grow,
        )[:2]

    return run


@pytest.mark.parametrize("segment", [1, 2, 5, 9])
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_same_translations(segment, seed):
    run = search_of(segment, kt.BeamSearchConfig(beam_size=3))
    bt.assert_same_as_one_loop(
        lambda tables, limits: run(tables, limits, np.int32(ROOM)), seed, ROOM
    )


def test_no_sentence_at_all():
    tables = np.zeros((0, 4, bt.VOCABULARY), "float32")
    tokens, scores = search_of(2, kt.BeamSearchConfig())(
        tables, np.zeros(0, "int32"), np.int32(3)
    )
    assert tokens.shape == (0, 4, 3)
    assert scores.shape == (0, 4)


@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        # Most would be worked off in vain for the rest of the segment.
        ([1] * 12 + [6] * 4, [16, 4, 4, 4, 4, 4]),
        # To let one leave would cost more than its last step.
        ([5] + [6] * 15, [16, 16, 16, 16, 16, 16]),
    ],
)
def test_sentences_leave_when_it_pays(limits, rows):
    import tensorflow as tf

    seen = []

    def watch(tokens):
        tf.numpy_function(seen.append, [ops.shape(tokens)[0]], [])

    rules = kt.BeamSearchConfig(beam_size=3, stop="never")
    tables = bt.random_tables(1, len(limits), ROOM)
    search_of(ROOM, rules, watch)(
        tables, np.array(limits, "int32"), np.int32(ROOM)
    )
    assert seen == rows
