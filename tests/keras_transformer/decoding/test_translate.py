"""Beam search over real Transformers with random weights."""

import collections
import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import translate as translate_module
from keras_transformer.decoding.alignment import gather_alignments
from keras_transformer.decoding.translate import output_capacity, output_limits
from tests.keras_transformer import helpers, whole_model
from tests.keras_transformer.decoding import beam_tables as bt

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")
CAPACITY = 6


@functools.cache
def model_with(**changes):
    """Random weights, scaled up so that some outputs are far likelier.

    The begin id is impossible, as training makes it, and the pad as likely as
    some words.
    """
    fields = {"num_layers": 1, "beam_size": 3, "max_extra_tokens": 4}
    config = helpers.config(share_embeddings="none", **{**fields, **changes})
    model = kt.Transformer(config)
    helpers.randomise(model, seed=9, scale=3.0)
    helpers.fix_feature_0(model, 4.0)
    table = helpers.to_numpy(model.output_embedding.embeddings)
    table[:, 0] = 0.0
    table[[PAD, BEGIN], 0] = 1.5, -25.0
    model.output_embedding.embeddings.assign(table)
    return model


@functools.cache
def _translation(model, capacity):
    return helpers.jitted(
        functools.partial(kt.translate_ids, model, max_length=capacity)
    )


def translate(model, source, capacity=CAPACITY):
    result = _translation(model, capacity)(source=ops.convert_to_tensor(source))
    return (
        helpers.to_numpy(result.tokens).astype(int),
        helpers.to_numpy(result.scores),
    )


def full_log_probs(model, source):
    """Prefix -> log-probabilities, by a full pass without any cache."""

    @functools.cache
    def read(prefix):
        target = np.zeros((1, CAPACITY), "int32")
        target[0, : len(prefix) + 1] = [BEGIN, *prefix]
        inputs = {
            "source": ops.convert_to_tensor(source[None]),
            "target": ops.convert_to_tensor(target),
        }
        logits = helpers.to_numpy(helpers.compiled_once(model)(inputs))
        return bt.log_softmax(logits[0, len(prefix)])

    return read


def averaged_log_probs(models, source, mean):
    readers = [full_log_probs(model, source) for model in models]

    def read(prefix):
        each = np.array([reader(prefix) for reader in readers])
        if mean == "probabilities":
            log_probs = np.log(np.exp(each).mean(axis=0))
        else:
            log_probs = bt.log_softmax(each.mean(axis=0))
        # Suppressed, without giving others what they would have.
        log_probs[[PAD, UNKNOWN, BEGIN]] = -np.inf
        return log_probs

    return read


def two_models():
    return [model_with(), model_with(norm="pre", positions="learned")]


@pytest.mark.parametrize("mean", [None, "log_probabilities", "probabilities"])
def test_equals_a_plain_search_by_full_passes(mean):
    """Of a model, or of an ensemble with this mean."""
    models = two_models()
    if mean:
        model = kt.Ensemble(models, mean)
    else:
        model = model_with(
            source_vocabulary_size=12, length_penalty="power", alpha=1.0
        )
        models = [model]
    config = models[0].config
    tokens, scores = translate(model, SOURCE)
    lengths = []
    for row, source in enumerate(SOURCE):
        log_probs = averaged_log_probs(models, source, mean)
        # The end id is not counted, 4 more tokens are allowed, 6 fit.
        limit = min(np.count_nonzero(source) - 1 + 4, CAPACITY)
        penalty = config.alpha, config.length_penalty
        expected = bt.plain_beam_search(log_probs, limit, 3, *penalty)
        bt.assert_finds(tokens[row], scores[row], expected, log_probs, *penalty)
        lengths += [len(bt.as_tuple(found)) for found in tokens[row]]
    # Else the weights make this too easy.
    assert len(set(lengths)) > 1


def test_padding_neighbors_and_a_shared_decoder_change_nothing():
    model = model_with(norm="pre", positions="learned")
    expected = translate(model, SOURCE)
    bt.assert_same(translate(model, np.pad(SOURCE, ((0, 0), (0, 6)))), expected)
    decoder = model.beam_decoder(model.config.beam_size)
    for row in range(3):
        one = slice(row, row + 1)
        source = ops.convert_to_tensor(SOURCE[one])
        found = kt.translate_ids(model, source, CAPACITY, decoder=decoder)
        bt.assert_same(found, [each[one] for each in expected])


def most_repetitions(ids, size):
    words = [*ids[ids != PAD]]
    starts = range(len(words) - size + 1)
    counts = collections.Counter(tuple(words[i : i + size]) for i in starts)
    return max(counts.values(), default=0)


@pytest.mark.parametrize("size", [1, 2, 30])
def test_repetition_is_searched_again(size):
    """Unless the source repeats as much, or no sequence is as long."""
    find = functools.partial(model_with, alpha=2.0, stop_criterion="exact")
    sources = np.random.default_rng(1).integers(4, 11, (24, 12), "int32")
    sources[:6, :11] = [[4], [5], [7], [8], [9], [10]]
    sources[:, -1] = END
    first = translate(find(), sources)
    blocked = translate(find(no_repeat_ngram_size=size), sources)
    again = [
        most_repetitions(tokens[0], size)
        > max(1, most_repetitions(source, size))
        for source, tokens in zip(sources, first[0])
    ]
    expected = [
        np.where(np.reshape(again, (-1,) + (1,) * (each.ndim - 1)), other, each)
        for each, other in zip(first, blocked)
    ]
    model = find(retry_ngram_size=size)
    bt.assert_same(translate(model, sources), expected)
    found = kt.translate_ids(
        *(model, ops.convert_to_tensor(sources), CAPACITY),
        trace_alignments=True,
    )
    assert_aligned(model, sources, found)
    assert any(again) == (size < 30) and not all(again)
    repetitions = [most_repetitions(row, size) for row in first[0][:, 0]]
    assert any(np.array(repetitions)[~np.array(again)] > 1) == (size < 30)


def test_limits_and_capacity_of_outputs():
    source = np.array([[5, 6, 7, 3], [5, 3, 0, 0], [3, 0, 0, 0], [0] * 4])
    # Blank sources end at once.
    for extra, limits in ((50, [53, 51, 1, 1]), (0, [3, 1, 1, 1])):
        found = helpers.to_numpy(output_limits(source, extra))
        np.testing.assert_array_equal(found, limits)
    # A number, so that JAX can compile it.
    for rows, capacity in ((9, 9), (99, 54)):
        config = helpers.config(positions="learned", max_positions=rows)
        found = output_capacity(source, config)
        assert (type(found), found) == (int, capacity)


def test_learned_positions_refuse_more_steps_than_rows():
    """Without an error, JAX reads NaN beyond the table, a GPU zeros."""
    model = model_with(positions="learned", max_positions=5)
    with pytest.raises(ValueError, match="max_positions"):
        kt.translate_ids(model, SOURCE, 6)


def constrain(source, extra):
    """Every translation is as long as it may be."""
    limits = output_limits(source, extra)
    return kt.Constraints(limits, limits)


def assert_scores(model, source, found, alpha=0.6):
    """The best hypotheses have the scores of a full pass without cache."""
    best = helpers.to_numpy(found.tokens)[:, 0].astype("int32")
    scores = helpers.jitted(functools.partial(kt.score_ids, model))(
        ops.convert_to_tensor(source), ops.convert_to_tensor(best)
    )
    penalties = ((5 + np.count_nonzero(best, axis=1)) / 6) ** alpha
    np.testing.assert_allclose(
        helpers.to_numpy(found.scores)[:, 0],
        helpers.to_numpy(scores) / penalties,
        1e-5,
        1e-5,
    )


# With a window the cache is extended, then overwritten.
@pytest.mark.parametrize("window", [0, 6])
def test_buckets_extend_the_caches_of_a_model(window, monkeypatch):
    monkeypatch.setattr(translate_module, "_BUCKETS", (2, 5))
    model = model_with(attention_window=window)

    def search(source):
        return kt.translate_ids(model, source, 11, constrain(source, 7))

    found = helpers.jitted(search)(ops.convert_to_tensor(SOURCE))
    tokens = helpers.to_numpy(found.tokens)
    assert np.count_nonzero(tokens[:, 0], axis=1).tolist() == [11, 8, 9]
    assert_scores(model, SOURCE, found)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of tf.function"
)
def test_one_graph_of_a_shrinking_batch_for_all_shapes():
    """Sentences leave at different times and take their trace along.

    The cache of a window is extended, then overwritten.
    """
    import tensorflow as tf

    model = model_with(attention_window=9)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        return kt.translate_ids(
            *(model, source, tf.shape(source)[1] + 10, constrain(source, 8)),
            shrink_batch=True,
            trace_alignments=True,
        )

    for source in (SOURCE, SOURCE[1:2, :2], SOURCE[:0]):
        found = run(source)
        assert found.tokens.shape == (len(source), 3, source.shape[1] + 10)
        if len(source):
            assert_scores(model, source, found)
            assert_aligned(model, source, found)
    alignments = gather_alignments(found.state, found.tokens)
    assert alignments.shape == (0, 3, 15, 5)


# 2 steps of 6 take the first bucket.
@pytest.mark.parametrize("several", [False, True])
def test_every_hypothesis_has_its_own_alignment(several, monkeypatch):
    monkeypatch.setattr(translate_module, "_BUCKETS", (2,))
    model = model_with(num_layers=2, alignment_layer=-1, alignment_heads=1)
    model = kt.Ensemble(two_models()) if several else model
    found = kt.translate_ids(
        model, ops.convert_to_tensor(SOURCE), CAPACITY, trace_alignments=True
    )
    assert_aligned(model, SOURCE, found)
    bt.assert_same(found, translate(model, SOURCE))


def assert_aligned(model, source, found):
    """Compares the alignments of all hypotheses with `kt.force_align`."""
    alignments = gather_alignments(found.state, found.tokens)
    alignments = helpers.to_numpy(alignments)
    tokens = helpers.to_numpy(found.tokens).astype("int32")
    scores = helpers.to_numpy(found.scores)
    assert alignments.shape == (*tokens.shape, source.shape[1])
    compared = 0
    for beam in range(tokens.shape[1]):
        expected = kt.force_align(model, source, tokens[:, beam])
        expected = helpers.to_numpy(expected)
        for row in np.flatnonzero(scores[:, beam] > -1e8):
            length = len(bt.as_tuple(tokens[row, beam]))
            actual = alignments[row, beam, :length]
            wanted = expected[row, :length]
            np.testing.assert_allclose(actual, wanted, atol=1e-5)
            compared += 1
    assert compared > len(source)


def test_an_ensemble_has_the_fewest_learned_positions_of_its_models():
    short, long = (
        model_with(positions="learned", max_positions=rows) for rows in (7, 9)
    )
    for first in model_with(), model_with(sinusoid_rates="marian"):
        config = kt.Ensemble([first, long, short]).config
        assert (config.positions, config.max_positions) == ("learned", 7)


def test_an_ensemble_refuses():
    model = model_with()
    target = kt.Transformer(helpers.config(vocabulary_size=12))
    source = helpers.config(source_vocabulary_size=12, share_embeddings="none")
    for arguments, message in (
        (([],), "at least one"),
        (([model], "median"), "mean"),
        (([model, target],), "vocabulary"),
        (([model, kt.Transformer(source)],), "vocabulary"),
    ):
        with pytest.raises(ValueError, match=message):
            kt.Ensemble(*arguments)


def test_scores_of_given_translations():
    """They are those of the NumPy reference; padding changes none."""
    model = helpers.variant("paper")
    target = np.array([[6, 4, 3, 0], [3, 0, 0, 0], [9, 9, 5, 3]], "int32")
    begin = np.full((3, 1), BEGIN)
    inputs = {
        "source": SOURCE,
        "target": np.concatenate([begin, target[:, :-1]], 1),
    }
    weights = helpers.weights_by_name(model)
    logits = whole_model.logits(model.config, weights, inputs)
    log_probs = np.take_along_axis(
        bt.log_softmax(logits), target[..., None], axis=-1
    )[..., 0]
    expected = np.where(target != PAD, log_probs, 0).sum(axis=1)
    for pads in (0, 2):
        wide = [np.pad(ids, ((0, 0), (0, pads))) for ids in (SOURCE, target)]
        found = helpers.to_numpy(kt.score_ids(model, *wide))
        np.testing.assert_allclose(found, expected, atol=1e-4)
