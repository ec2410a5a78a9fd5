"""Scores and alignments of given translations, against full passes."""

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model
from tests.keras_transformer.decoding import beam_tables as bt

BEGIN = 2
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")
TARGET = np.array([[6, 4, 3, 0], [3, 0, 0, 0], [9, 9, 5, 3]], "int32")
INPUTS = {
    "source": SOURCE,
    "target": np.concatenate([np.full((3, 1), BEGIN), TARGET[:, :-1]], 1),
}


def test_scores_are_the_reference_s_log_probabilities():
    model = helpers.variant("paper")
    weights = helpers.weights_by_name(model)
    logits = whole_model.logits(model.config, weights, INPUTS)
    scores = helpers.to_numpy(kt.score_ids(model, SOURCE, TARGET))
    for row, target in enumerate(TARGET):
        expected = sum(
            bt.log_softmax(logits[row, place])[word]
            for place, word in enumerate(target)
            if word
        )
        assert scores[row] == pytest.approx(expected, abs=1e-4)


def test_padding_changes_no_score():
    model = helpers.variant("paper")
    scores = helpers.to_numpy(kt.score_ids(model, SOURCE, TARGET))
    wide = helpers.to_numpy(
        kt.score_ids(
            model,
            np.pad(SOURCE, ((0, 0), (0, 3))),
            np.pad(TARGET, ((0, 0), (0, 2))),
        )
    )
    np.testing.assert_allclose(wide, scores, atol=1e-5)


def test_alignments_are_the_mean_of_a_layer_s_heads():
    model = helpers.variant("paper")
    layers = model.config.num_layers
    inputs = {name: value.astype("int32") for name, value in INPUTS.items()}
    every = model.attention(inputs)["cross"]
    for layer in range(1, layers + 1):
        found = helpers.to_numpy(kt.force_align(model, SOURCE, TARGET, layer))
        expected = helpers.to_numpy(every[layer - 1]).mean(axis=1)
        # Rows at padding are nobody's, and 0 in `attention` alone.
        real = inputs["target"] != 0
        np.testing.assert_allclose(found[real], expected[real], atol=1e-6)
        np.testing.assert_allclose(found[real].sum(axis=1), 1.0, atol=1e-5)
        assert not found[1, :, 2:].any()
    usual = helpers.to_numpy(kt.force_align(model, SOURCE, TARGET))
    last_but_one = kt.force_align(model, SOURCE, TARGET, max(layers - 1, 1))
    np.testing.assert_array_equal(usual, helpers.to_numpy(last_but_one))


def test_attention_is_that_of_the_shifted_target():
    """Row t is of the step that gives the target's token t."""
    model = helpers.variant("paper")
    inputs = {name: value.astype("int32") for name, value in INPUTS.items()}
    expected = model.attention(inputs)
    found = kt.attention_scores(model, SOURCE, TARGET)
    assert found.keys() == expected.keys()
    for kind, layers in found.items():
        for actual, wanted in zip(layers, expected[kind], strict=True):
            wanted = helpers.to_numpy(wanted)
            assert np.array_equal(helpers.to_numpy(actual), wanted)


@pytest.mark.parametrize("layer", [0, 99])
def test_refuses_a_layer_that_is_not_there(layer):
    with pytest.raises(ValueError, match="layer must be from 1 to"):
        kt.force_align(helpers.variant("paper"), SOURCE, TARGET, layer)
