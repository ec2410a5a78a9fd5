"""The whole model against the NumPy float64 reference."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.kernels import Dropout
from keras_transformer.parsing.parser_transformer import new_transformer
from tests.keras_transformer import helpers, whole_model

TOLERANCE = 1e-5


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_equals_reference(name):
    whole_model.assert_equal(helpers.variant(name), helpers.padded_inputs())


@pytest.mark.parametrize(
    "changes",
    [
        {"share_embeddings": "target-softmax", "norm": "pre"},
        {"positions": "words", "layer_norm_epsilon": 0.5, **helpers.WORD_IDS},
        {"share_embeddings": "none", "source_vocabulary_size": 17},
        {"num_layers": 1, "num_decoder_layers": 3, "activation": "silu"},
    ],
)
def test_equals_reference_with_other_fields(changes):
    model = new_transformer(helpers.config(**changes))
    helpers.randomise(model, seed=5)
    inputs = helpers.padded_inputs(seed=8)
    if "source_vocabulary_size" in changes:
        # Ids that the target's vocabulary does not have.
        inputs["source"][0, :3] = [16, 11, 14]
        assert model.source_embedding.embeddings.shape == (17, 12)
        assert model.output_embedding.embeddings.shape == (11, 12)
    whole_model.assert_equal(model, inputs)


def test_a_single_token_gives_no_warning(recwarn):
    ids = np.array([[4]], "int32")
    helpers.variant("paper")({"source": ids, "target": ids})
    assert [str(warning.message) for warning in recwarn] == []


def test_dropout_is_random_and_only_in_training():
    model = kt.Transformer(helpers.config(dropout=0.5))
    inputs = helpers.padded_inputs()
    plain = helpers.logits(model, inputs)
    np.testing.assert_array_equal(helpers.logits(model, inputs), plain)
    first = helpers.to_numpy(model(inputs, training=True))
    second = helpers.to_numpy(model(inputs, training=True))
    assert np.abs(first - plain).max() > 1e-2
    assert np.abs(first - second).max() > 1e-2


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_is_where_the_paper_puts_it(norm, monkeypatch):
    def expectation(layer, inputs, training=False):
        return inputs * (1.0 - layer.rate) if training else inputs

    monkeypatch.setattr(Dropout, "call", expectation)
    dropouts = {"dropout": 0.1, "attention_dropout": 0.25}
    model = kt.Transformer(
        helpers.config(norm=norm, activation_dropout=0.5, **dropouts)
    )
    helpers.randomise(model)
    inputs = helpers.padded_inputs()
    weights = helpers.weights_by_name(model)
    pairs = whole_model.run_batch(model.config, weights, inputs, True)
    logits = helpers.to_numpy(model(inputs, training=True))
    real = inputs["target"] != 0
    expected = np.stack([pair.logits for pair in pairs])[real]
    assert helpers.relative_error(logits[real], expected) <= TOLERANCE


def test_each_class_refuses_the_positions_of_the_other():
    words = helpers.config(positions="words", **helpers.WORD_IDS)
    with pytest.raises(ValueError, match="ParserTransformer"):
        kt.Transformer(words)
    with pytest.raises(ValueError, match="Transformer"):
        kt.ParserTransformer(helpers.config())


def test_other_inputs_than_a_dict_of_both_sides_are_refused():
    model = kt.Transformer(helpers.config())
    ids = np.ones((2, 3), "int32")
    both = {"source": ids, "target": ids}
    for inputs in (
        ids,
        [ids, ids],
        (ids, ids),
        {},
        *({name: ids} for name in both),
        {"inputs": ids, "targets": ids},
    ):
        for function in (model, model.predict_on_batch, model.attention):
            with pytest.raises(ValueError, match="dict of source and target"):
                function(inputs)
