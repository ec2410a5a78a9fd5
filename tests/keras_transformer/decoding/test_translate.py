"""Beam search over real Transformers with random weights."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.translate import output_capacity, output_limits
from tests.keras_transformer import helpers, whole_model
from tests.keras_transformer.decoding import beam_tables as bt

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")
CAPACITY = 6


@functools.cache
def model_with(**changes):
    """Random weights, scaled up so that some outputs are far likelier.

    Feature 0 of the decoder's output is made a constant 4, through which the
    begin id is made impossible, as training makes it, and the pad as likely
    as some words.
    """
    config = helpers.config(
        beam_size=3, share_embeddings="none", max_extra_tokens=4, **changes
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


VARIED = {
    "paper": {},
    "pre-norm": {"norm": "pre", "positions": "learned"},
    "power": {"length_penalty": "power", "alpha": 1.0, "num_heads": 3},
    "unlike sides": {"source_vocabulary_size": 12, "num_decoder_layers": 1},
}


def two_models():
    return [
        model_with(),
        model_with(norm="pre", positions="learned", num_decoder_layers=1),
    ]


@pytest.mark.parametrize(
    "name", [*VARIED, "log_probabilities", "probabilities"]
)
def test_equals_a_plain_search_by_full_passes(name):
    """Of a model, or of an ensemble with this mean."""
    if name in VARIED:
        models = [model_with(**VARIED[name])]
        model, mean = models[0], None
    else:
        models, mean = two_models(), name
        model = kt.Ensemble(models, mean)
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


@pytest.mark.parametrize("name", VARIED)
def test_padding_and_neighbours_change_nothing(name):
    model = model_with(**VARIED[name])
    tokens, scores = translate(model, SOURCE)
    wide = translate(model, np.pad(SOURCE, ((0, 0), (0, 6))))
    bt.assert_same(wide, (tokens, scores))
    for row in range(3):
        one = slice(row, row + 1)
        bt.assert_same(
            translate(model, SOURCE[one]), (tokens[one], scores[one])
        )


def test_limits_and_capacity_of_outputs():
    """Words without the end id, + extra; never below 1."""
    source = np.array([[5, 6, 7, 3], [5, 3, 0, 0], [3, 0, 0, 0], [0] * 4])
    for extra, limits in ((50, [53, 51, 50, 49]), (0, [3, 1, 1, 1])):
        found = helpers.to_numpy(output_limits(source, extra))
        np.testing.assert_array_equal(found, limits)
    # A number, so that JAX can compile it.
    for rows, capacity in ((9, 9), (99, 54)):
        config = helpers.config(positions="learned", max_positions=rows)
        found = output_capacity(source, config)
        assert (type(found), found) == (int, capacity)


@pytest.mark.parametrize("rows, capacity", [(5, 6), (40, 50)])
def test_learned_positions_refuse_more_steps_than_rows(rows, capacity):
    """Without an error, JAX reads NaN beyond the table, a GPU zeros."""
    model = model_with(positions="learned", max_positions=rows)
    with pytest.raises(ValueError, match="max_positions"):
        kt.translate_ids(model, SOURCE, capacity)


def test_buckets_extend_the_caches_of_a_model():
    capacity, model = 70, model_with()
    constraints = kt.Constraints(
        ops.convert_to_tensor([capacity, 40, 5]),
        ops.convert_to_tensor([30, 1, 1]),
    )
    config = kt.BeamSearchConfig.from_config(model.config)

    def in_one_loop(source):
        decoder = model.beam_decoder(config.beam_size)
        return kt.beam_search(
            *(decoder.step, decoder.start(source, capacity)),
            *(constraints, capacity, config),
        )[:2]

    def in_buckets(source):
        return kt.translate_ids(model, source, capacity, constraints)[:2]

    source = ops.convert_to_tensor(SOURCE)
    expected = helpers.jitted(in_one_loop)(source)
    assert np.count_nonzero(helpers.to_numpy(expected[0])[0, 0]) >= 30
    bt.assert_same(helpers.jitted(in_buckets)(source), expected)


def test_a_decoder_serves_many_sources():
    model = model_with()
    decoder = model.beam_decoder(model.config.beam_size)
    for source in (SOURCE, SOURCE[:1]):
        found = kt.translate_ids(model, source, CAPACITY, decoder=decoder)
        bt.assert_same(found, kt.translate_ids(model, source, CAPACITY))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of tf.function"
)
def test_one_graph_of_a_shrinking_batch_for_all_shapes():
    import tensorflow as tf

    model = model_with()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        return kt.translate_ids(model, source, shrink_batch=True)

    for source in (SOURCE, SOURCE[1:2, :2], SOURCE[:0]):
        result = run(source)
        assert result.tokens.shape == (len(source), 3, source.shape[1] + 4)
        if len(source):
            expected = translate(model, source, result.tokens.shape[2])
            bt.assert_same(result, expected)


def test_an_ensemble_has_the_fewest_learned_positions_of_its_models():
    short, long = (
        model_with(positions="learned", max_positions=rows) for rows in (7, 9)
    )
    for models in ([long, short], [short, long], [model_with(), long, short]):
        config = kt.Ensemble(models).config
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
