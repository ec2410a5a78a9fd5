"""Beam search over real Transformers with random weights."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.translate import output_limits
from tests.keras_transformer import helpers, reference
from tests.keras_transformer.decoding import beam_tables as bt

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")
ROOM = 6


@functools.cache
def model_with(likely_pad: bool = False, **changes):
    """Random weights, scaled up so that some outputs are far likelier.

    Feature 0 of the decoder's output is made a constant 4, through which the
    pad and begin ids are made impossible, as training makes them, or (for
    one test) the pad as likely as some words.
    """
    config = helpers.config(
        beam_size=3, share_embeddings="none", max_output_extra=4, **changes
    )
    model = kt.Transformer(config)
    helpers.randomise(model, seed=9, scale=3.0)
    last = model.decoder.layers[-1].feed_forward_residual.layer_norm
    if config.norm == "pre":
        last = model.decoder.final_norm
    for weight, constant in ((last.gamma, 0.0), (last.beta, 4.0)):
        values = helpers.to_numpy(weight)
        values[0] = constant
        weight.assign(values)
    table = helpers.to_numpy(model.output_embedding.embeddings)
    table[:, 0] = 0.0
    table[[PAD, BEGIN], 0] = (1.5, -25.0) if likely_pad else -25.0
    model.output_embedding.embeddings.assign(table)
    return model


@functools.cache
def translation(model, room):
    return helpers.jitted(
        functools.partial(kt.translate_ids, model, max_length=room)
    )


def translate(model, source, room=ROOM, max_lengths=None):
    if max_lengths is not None:
        max_lengths = ops.convert_to_tensor(max_lengths, "int32")
    result = translation(model, room)(
        source=ops.convert_to_tensor(source), constraints=max_lengths
    )
    return (
        helpers.to_numpy(result.tokens).astype(int),
        helpers.to_numpy(result.scores),
    )


def log_probs_of(model, source):
    """As `full_log_probs`; what is never said is impossible.

    What it would have is not given to others.
    """
    read = full_log_probs(model, source)

    def read_sayable(prefix):
        log_probs = read(prefix).copy()
        log_probs[[PAD, UNKNOWN, BEGIN]] = -np.inf
        return log_probs

    return read_sayable


def full_log_probs(model, source):
    """Prefix -> log-probabilities, by a full pass without any cache."""

    @functools.cache
    def read(prefix):
        target = np.zeros((1, ROOM), "int32")
        target[0, : len(prefix) + 1] = [BEGIN, *prefix]
        inputs = {
            "source": ops.convert_to_tensor(source[None]),
            "target": ops.convert_to_tensor(target),
        }
        logits = helpers.to_numpy(helpers.compiled_once(model)(inputs))
        return bt.log_softmax(logits[0, len(prefix)])

    return read


VARIED = {
    "paper": {},
    "pre-norm": {"norm": "pre", "positions": "learned"},
    "power": {"length_penalty": "power", "alpha": 1.0, "num_heads": 3},
    "unlike sides": {"source_vocabulary_size": 12, "num_decoder_layers": 1},
}


@pytest.mark.parametrize("name", VARIED)
def test_equals_a_plain_search_by_full_passes(name):
    model = model_with(**VARIED[name])
    config = model.config
    tokens, scores = translate(model, SOURCE)
    lengths = []
    for row, source in enumerate(SOURCE):
        log_probs = log_probs_of(model, source)
        # The end id is not counted, 4 more tokens are allowed, 6 have room.
        limit = min(np.count_nonzero(source) - 1 + 4, ROOM)
        expected = bt.plain_beam_search(
            log_probs,
            limit,
            config.beam_size,
            config.alpha,
            config.length_penalty,
        )
        true_score = bt.scorer(log_probs, config.alpha, config.length_penalty)
        bt.assert_finds(tokens[row], scores[row], expected, true_score)
        lengths += [len(bt.as_tuple(found)) for found in tokens[row]]
    # Else the weights make this too easy.
    assert len(set(lengths)) > 1


def test_scores_are_the_model_s_log_probability_by_the_penalty():
    model = model_with()
    tokens, scores = translate(model, SOURCE)
    for beam in range(model.config.beam_size):
        outputs = tokens[:, beam].astype("int32")
        target = np.concatenate([np.full((3, 1), BEGIN), outputs[:, :-1]], 1)
        memory = model.encode(SOURCE)
        logits = helpers.to_numpy(
            model.decode(target.astype("int32"), memory, SOURCE)
        )
        for row in range(3):
            length = len(bt.as_tuple(outputs[row]))
            total = sum(
                bt.log_softmax(logits[row, place])[outputs[row, place]]
                for place in range(length)
            )
            expected = total / reference.length_penalty(length, 0.6, "gnmt")
            assert scores[row, beam] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", VARIED)
def test_padding_and_neighbours_change_nothing(name):
    model = model_with(**VARIED[name])
    tokens, scores = translate(model, SOURCE)
    wide_tokens, wide_scores = translate(
        model, np.pad(SOURCE, ((0, 0), (0, 6)))
    )
    np.testing.assert_array_equal(wide_tokens, tokens)
    np.testing.assert_allclose(wide_scores, scores, rtol=0, atol=1e-4)
    for row in range(3):
        lone_tokens, lone_scores = translate(model, SOURCE[row : row + 1])
        np.testing.assert_array_equal(lone_tokens[0], tokens[row])
        np.testing.assert_allclose(lone_scores[0], scores[row], atol=1e-4)


def test_given_limits_are_kept():
    model = model_with()
    tokens, _ = translate(model, SOURCE, max_lengths=[1, 2, 3])
    assert [bt.as_tuple(row) for row in tokens[0, :1]] == [(END,)]
    for row, limit in enumerate([1, 2, 3]):
        assert len(bt.as_tuple(tokens[row, 0])) <= limit
        assert not tokens[row, :, limit:].any()


def test_output_limits():
    """Words without the end id, + extra; never below 1."""
    source = np.array([[5, 6, 7, 3], [5, 3, 0, 0], [3, 0, 0, 0], [0] * 4])
    limits = helpers.to_numpy(output_limits(source, 50))
    np.testing.assert_array_equal(limits, [53, 51, 50, 49])
    limits = helpers.to_numpy(output_limits(source, 0))
    np.testing.assert_array_equal(limits, [3, 1, 1, 1])


def test_the_pad_is_never_a_word():
    """A pad inside a hypothesis would end it for every reader of tokens.

    The full pass masks it as well, so its score would not be the model's.
    """
    tokens, scores = translate(model_with(likely_pad=True), SOURCE)
    for found in tokens[scores > -1e8]:
        assert PAD not in bt.as_tuple(found)


def test_the_room_for_learned_positions_is_a_number_where_it_can_be():
    """So that JAX can compile it."""
    config = helpers.config(positions="learned", max_positions=9)
    for ids, room in ((SOURCE[:, :1], 9), (SOURCE, 9)):
        found = kt.output_capacity(ids, config)
        assert (type(found), found) == (int, room)


def test_learned_positions_refuse_more_steps_than_rows():
    """Without an error, JAX reads NaN beyond the table, a GPU zeros."""
    model = model_with(positions="learned", max_positions=5)
    with pytest.raises(ValueError, match="max_positions"):
        kt.translate_ids(model, SOURCE, 6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of tf.function"
)
def test_one_graph_for_all_shapes():
    import tensorflow as tf

    model = model_with()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        room = tf.maximum(tf.reduce_max(output_limits(source, 4)), 1)
        return kt.translate_ids_in_segments(model, source, room)

    for source in (SOURCE, SOURCE[1:2, :2], SOURCE[:0]):
        result = run(source)
        assert len(result.tokens) == len(source)
        if not len(source):
            continue
        tokens, scores = translate(model, source, result.tokens.shape[2])
        np.testing.assert_array_equal(result.tokens.numpy(), tokens)
        np.testing.assert_allclose(result.scores.numpy(), scores, atol=1e-4)
