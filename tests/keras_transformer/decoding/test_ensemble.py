"""Several models that decode together, against averaging by hand."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding.ensemble import MEANS
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt
from tests.keras_transformer.decoding.test_translate import (
    ROOM,
    SOURCE,
    full_log_probs,
    model_with,
)


def averaged(models, source, mean):
    readers = [full_log_probs(model, source) for model in models]

    def read(prefix):
        each = np.array([reader(prefix) for reader in readers])
        if mean == "probabilities":
            log_probs = np.log(np.exp(each).mean(axis=0))
        else:
            log_probs = bt.log_softmax(each.mean(axis=0))
        log_probs[:3] = -np.inf
        return log_probs

    return read


@pytest.fixture(scope="module")
def models():
    return [
        model_with(),
        model_with(norm="pre", positions="learned", num_decoder_layers=1),
    ]


@pytest.mark.parametrize("mean", MEANS)
def test_equals_a_plain_search_over_averages(models, mean):
    ensemble = kt.Ensemble(models, mean)
    found = kt.translate_ids(ensemble, SOURCE, ROOM)
    tokens = helpers.to_numpy(found.tokens).astype(int)
    scores = helpers.to_numpy(found.scores)
    config = models[0].config
    for row, source in enumerate(SOURCE):
        limit = min(np.count_nonzero(source) - 1 + 4, ROOM)
        log_probs = averaged(models, source, mean)
        expected = bt.plain_beam_search(
            log_probs, limit, config.beam_size, config.alpha, "gnmt"
        )
        true_score = bt.scorer(log_probs, config.alpha, "gnmt")
        bt.assert_finds(tokens[row], scores[row], expected, true_score)


@pytest.mark.parametrize("mean", MEANS)
def test_of_one_model_twice_is_that_model(models, mean):
    twice = kt.translate_ids(kt.Ensemble(models[:1] * 2, mean), SOURCE, ROOM)
    once = kt.translate_ids(models[0], SOURCE, ROOM)
    np.testing.assert_array_equal(
        helpers.to_numpy(twice.tokens), helpers.to_numpy(once.tokens)
    )
    np.testing.assert_allclose(
        helpers.to_numpy(twice.scores), helpers.to_numpy(once.scores), atol=1e-4
    )


def test_it_has_as_many_learned_positions_as_the_least_of_its_models(models):
    short, long = (
        model_with(positions="learned", max_positions=rows) for rows in (7, 9)
    )
    for several in ([long, short], [short, long], [models[0], long, short]):
        config = kt.Ensemble(several).config
        assert (config.positions, config.max_positions) == ("learned", 7)


def test_refuses(models):
    with pytest.raises(ValueError, match="at least one"):
        kt.Ensemble([])
    with pytest.raises(ValueError, match="mean must be"):
        kt.Ensemble(models, "median")
    other = kt.Transformer(helpers.config(vocabulary_size=12))
    with pytest.raises(ValueError, match="one vocabulary"):
        kt.Ensemble([models[0], other])
    of_two = helpers.config(source_vocabulary_size=12, share_embeddings="none")
    with pytest.raises(ValueError, match="one vocabulary.* 11, 12 pieces"):
        kt.Ensemble([models[0], kt.Transformer(of_two)])
