"""Decoding with a window: a cache of its r + 1 steps against full passes."""

import functools
import statistics
import time

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding.test_translate import SOURCE, model_with

ROOM = 40
LONGEST, SHORTEST = np.array([[ROOM, ROOM, 7], [ROOM, 20, 1]], "int32")
RULES = kt.BeamSearchConfig(beam_size=3, alpha=0.0)


def in_one_loop(model, source, longest, shortest):
    decoder = model.beam_decoder(RULES.beam_size)
    state = decoder.start(source, ROOM)
    wanted = kt.Constraints(longest, shortest)
    return kt.beam_search(decoder.step, state, wanted, ROOM, RULES)[:2]


def in_stages(model, source, longest, shortest):
    wanted = kt.Constraints(longest, shortest)
    return kt.translate_ids(model, source, ROOM, wanted, RULES)[:2]


def in_segments(model, source, longest, shortest):
    import tensorflow as tf

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            *2 * [tf.TensorSpec([None], tf.int32)],
        ]
    )
    def run(source, *lengths):
        wanted, room = kt.Constraints(*lengths), tf.reduce_max(lengths[0])
        return kt.translate_ids_in_segments(model, source, room, wanted, RULES)[
            :2
        ]

    return run(source, longest, shortest)


@pytest.mark.parametrize(
    "window, search",
    [
        # The cache comes round many times.
        (5, in_one_loop),
        # And only after it has grown.
        (35, in_stages),
        pytest.param(
            *(35, in_segments),
            marks=pytest.mark.skipif(helpers.JITTED, reason="of TensorFlow"),
        ),
    ],
)
def test_a_search_finds_what_a_full_pass_scores_alike(window, search):
    model = model_with(attention_window=window)
    run = helpers.jitted(functools.partial(search, model))
    arrays = map(ops.convert_to_tensor, (SOURCE, LONGEST, SHORTEST))
    tokens, scores = map(helpers.to_numpy, run(*arrays))
    best = tokens[:, 0].astype("int32")
    assert np.count_nonzero(best, axis=1)[0] == ROOM
    check_score(model, best, scores[:, 0])


def check_score(model, tokens, log_probs):
    """Against a full pass, whose self-attention has a mask and no cache."""
    expected = helpers.jitted(functools.partial(kt.score_ids, model))(
        ops.convert_to_tensor(SOURCE), ops.convert_to_tensor(tokens)
    )
    np.testing.assert_allclose(
        log_probs, helpers.to_numpy(expected), rtol=1e-5, atol=1e-5
    )


def test_samples_have_the_probability_that_a_full_pass_gives_them():
    model = model_with(attention_window=5)
    # No end before the last step.
    rules = kt.SamplingConfig(samples=2, temperature=5.0, never=(3,))
    draw = functools.partial(kt.sample_ids, model, max_length=ROOM, rules=rules)
    tokens, log_probs = map(
        helpers.to_numpy,
        helpers.jitted(draw)(
            source=ops.convert_to_tensor(SOURCE),
            seeds=ops.convert_to_tensor([3, 4, 5], "int32"),
            max_lengths=ops.convert_to_tensor(LONGEST),
        ),
    )
    for number in range(2):
        drawn = tokens[:, number].astype("int32")
        assert np.count_nonzero(drawn, axis=1).tolist() == LONGEST.tolist()
        check_score(model, drawn, log_probs[:, number])


@pytest.mark.parametrize("steps, kept", [(3, 3), (6, 6), (7, 6), (4096, 6)])
def test_a_cache_keeps_a_window_and_its_own_step(steps, kept):
    decoder = model_with(attention_window=5).beam_decoder(2)
    state = decoder.start(SOURCE, steps)
    for cache in state.caches:
        assert cache.keys.shape == (3, 2, kept, 2 * 3)
        assert cache.values.shape == (3, 2, kept, 2 * 5)
    assert state.ancestry.shape == (3, 2, kept, 2)
    grown = decoder.grow(state, steps + 100)
    assert {cache.keys.shape[2] for cache in grown.caches} == {6}


@pytest.mark.slow
@pytest.mark.skipif(helpers.JITTED, reason="times steps of TensorFlow")
def test_a_token_takes_as_long_at_the_end_as_at_the_beginning():
    import tensorflow as tf

    room, times = 4096, []
    config = kt.TransformerConfig.preset(
        "base",
        vocabulary_size=1000,
        num_layers=2,
        attention_window=64,
    )
    model = kt.Transformer(config)

    class Watched:
        """The model's decoder, whose steps are noted."""

        def __init__(self, decoder):
            self.start, self.grow = decoder.start, decoder.grow
            self.remains, self._decoder = decoder.remains, decoder

        def step(self, *arguments):
            tf.numpy_function(lambda: times.append(time.perf_counter()), [], [])
            return self._decoder.step(*arguments)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        lengths = tf.fill([tf.shape(source)[0]], room)
        return kt.translate_ids_in_segments(
            model,
            source,
            lengths[0],
            kt.Constraints(lengths, lengths),
            kt.search_rules(config),
            decoder=Watched(model.beam_decoder(config.beam_size)),
        ).tokens

    tokens = run(SOURCE[:1])
    assert np.count_nonzero(tokens[0, 0]) == len(times) == room
    taken = np.diff(times)
    quarters = [statistics.median(part) for part in np.array_split(taken, 4)]
    assert quarters[3] / quarters[1] <= 1.1, quarters


@pytest.mark.slow
def test_trained_on_short_rows_it_runs_on_long_ones():
    """Of 256 positions at most, and then of 8,192."""
    config = helpers.config(
        attention_window=16, num_heads=1, num_layers=1, max_output_extra=0
    )
    model = kt.Transformer(config)
    generator = np.random.default_rng(1)
    source = generator.integers(4, 11, (32, 256)).astype("int32")
    target = np.roll(source, 1, axis=1)
    target[:, 0] = 2
    model.compile(
        keras.optimizers.Adam(1e-2), loss=kt.LabelSmoothedCrossEntropy(0.0)
    )
    inputs = {"source": source, "target": target}
    model.fit(inputs, source, batch_size=8, epochs=1, verbose=0)
    ids = generator.integers(4, 11, (1, 8192)).astype("int32")
    given = np.roll(ids, 1, axis=1)
    given[:, 0] = 2
    logits = helpers.logits(model, {"source": ids, "target": given})
    assert logits.shape == (1, 8192, 11)
    assert np.isfinite(logits).all()
    # The last positions as they are without the 4,096 first, which no
    # window reaches; positions are told.
    memory = helpers.to_numpy(model.encode(ids))[0, -1000:]
    rest = model.encoder(
        model.embed_source(ids[:, 4096:], np.arange(4096, 8192)[None])
    )
    expected = helpers.to_numpy(rest)[0, -1000:]
    assert helpers.relative_error(memory, expected) <= 1e-5
