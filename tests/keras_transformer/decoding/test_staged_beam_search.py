"""The search in several loops against the one in a single loop."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.beam_search import bucketed_beam_search
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt
from tests.keras_transformer.decoding.test_translate import SOURCE, model_with

ROOM = 6


@functools.cache
def search_of(rooms, rules):
    def step(tokens, parents, index, state):
        tables, numbers, room = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers, room)

    def grow(state, room):
        assert state[2].shape[0] < room
        return (*state[:2], ops.zeros(room))

    def run(tables, limits):
        shape = (ops.shape(tables)[0], rules.beam_size)
        nothing = (ops.zeros(shape, dtype="int32"), ops.zeros(rooms[0]))
        state = (tables, *nothing)
        found = bucketed_beam_search(step, state, limits, rooms, rules, grow)
        return found.tokens, found.scores, found.state[2]

    return helpers.jitted(run)


@pytest.mark.parametrize("rooms", [(ROOM,), (1, ROOM), (2, 3, ROOM)])
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_same_translations(rooms, seed):
    run = search_of(rooms, kt.BeamSearchConfig(beam_size=3))
    _, _, room = bt.assert_same_as_one_loop(
        lambda *arrays: run(*map(ops.convert_to_tensor, arrays)), seed, ROOM
    )
    assert room.shape == (ROOM,)


def test_a_model_whose_caches_grow():
    room = 70
    model = model_with()
    constraints = kt.Constraints(
        ops.convert_to_tensor([room, 40, 5]), ops.convert_to_tensor([30, 1, 1])
    )
    rules = kt.search_rules(model.config)

    def in_one_loop(source):
        decoder = model.beam_decoder(rules.beam_size)
        state = decoder.start(source, room)
        return kt.beam_search(decoder.step, state, constraints, room, rules)[:2]

    def in_stages(source):
        return kt.translate_ids(model, source, room, constraints, rules)[:2]

    source = ops.convert_to_tensor(SOURCE)
    expected, expected_scores = helpers.jitted(in_one_loop)(source)
    tokens, scores = helpers.jitted(in_stages)(source)
    expected = helpers.to_numpy(expected)
    assert np.count_nonzero(expected[0, 0]) >= 30
    np.testing.assert_array_equal(helpers.to_numpy(tokens), expected)
    np.testing.assert_allclose(
        helpers.to_numpy(scores), helpers.to_numpy(expected_scores), atol=1e-5
    )


def test_a_decoder_serves_many_sources():
    model = model_with()
    decoder = model.beam_decoder(model.config.beam_size)
    for source in (SOURCE, SOURCE[:1]):
        expected = kt.translate_ids(model, source, ROOM)
        found = kt.translate_ids(model, source, ROOM, decoder=decoder)
        np.testing.assert_array_equal(
            helpers.to_numpy(found.tokens), helpers.to_numpy(expected.tokens)
        )
        np.testing.assert_array_equal(
            helpers.to_numpy(found.scores), helpers.to_numpy(expected.scores)
        )


def test_learned_positions_refuse_what_only_a_later_stage_has_room_for():
    model = model_with(positions="learned", max_positions=40)
    with pytest.raises(ValueError, match="max_length=50 does not fit"):
        kt.translate_ids(model, SOURCE, 50)
