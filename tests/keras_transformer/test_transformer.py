"""The whole model against the NumPy float64 reference."""

import weakref

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.kernels import Dropout
from tests.keras_transformer import helpers, whole_model

TOLERANCE = 1e-5


def compare(model, inputs):
    """Logits and attention at every target position that is not padding."""
    weights = helpers.weights_by_name(model)
    expected = whole_model.run_batch(model.config, weights, inputs)
    logits = helpers.logits(model, inputs)
    seen = model.attention(inputs)
    for row, pair in enumerate(expected):
        real = {
            "encoder": inputs["source"][row] != 0,
            "decoder": inputs["target"][row] != 0,
            "cross": inputs["target"][row] != 0,
        }
        at = real["decoder"]
        error = helpers.relative_error(logits[row][at], pair.logits[at])
        assert error <= TOLERANCE
        for name, queries in real.items():
            both = zip(seen[name], getattr(pair, name), strict=True)
            for actual, wanted in both:
                assert (
                    keras.backend.standardize_dtype(actual.dtype) == "float32"
                )
                actual = helpers.to_numpy(actual)[row]
                wanted = np.where(queries[:, None], wanted, 0.0)
                assert (actual[wanted == 0] == 0).all()
                assert helpers.relative_error(actual, wanted) <= TOLERANCE


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_equals_reference(name):
    compare(helpers.variant(name), helpers.padded_inputs())


@pytest.mark.parametrize(
    "changes",
    [
        {"share_embeddings": "target-softmax", "norm": "pre"},
        {"share_embeddings": "none", "output_bias": True},
        {"layer_norm_epsilon": 0.5},
    ],
)
def test_equals_reference_with_other_fields(changes):
    model = kt.Transformer(helpers.config(**changes))
    helpers.randomise(model, seed=5)
    compare(model, helpers.padded_inputs(seed=8))


@pytest.mark.parametrize("share", ["target-softmax", "none"])
def test_two_vocabularies_and_one_decoder_layer(share):
    config = helpers.config(
        share_embeddings=share, source_vocabulary_size=17, num_decoder_layers=1
    )
    model = kt.Transformer(config)
    helpers.randomise(model, seed=6)
    inputs = helpers.padded_inputs(seed=9)
    # Ids that the target's vocabulary does not have.
    inputs["source"][0, :3] = [16, 11, 14]
    compare(model, inputs)
    assert [len(each) for each in model.attention(inputs).values()] == [2, 1, 1]
    assert model.source_embedding.embeddings.shape == (17, 12)
    assert model.output_embedding.embeddings.shape == (11, 12)


def test_a_decoder_deeper_than_the_encoder():
    model = kt.Transformer(helpers.config(num_layers=1, num_decoder_layers=3))
    helpers.randomise(model, seed=7)
    compare(model, helpers.padded_inputs())
    weights = model.attention(helpers.padded_inputs())["cross"]
    taken = [model.alignment(weights, layer) for layer in (None, 2)]
    np.testing.assert_array_equal(*map(helpers.to_numpy, taken))
    with pytest.raises(ValueError, match="3, not 4"):
        model.alignment(weights, 4)


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_encode_then_decode_is_the_call(name):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    memory = model.encode(inputs["source"])
    logits = model.decode(inputs["target"], memory, inputs["source"])
    expected = helpers.logits(model, inputs)
    assert helpers.relative_error(logits, expected) <= 1e-6


def test_a_call_keeps_no_attention(monkeypatch):
    """Of four layers' twelve weights, two layers' at a time are there."""
    model = kt.Transformer(helpers.config(num_layers=4))
    plain, made, most = keras.ops.softmax, [], []

    def watched(*arguments, **keywords):
        weights = plain(*arguments, **keywords)
        made.append(weakref.ref(weights))
        most.append(sum(each() is not None for each in made))
        return weights

    monkeypatch.setattr(keras.ops, "softmax", watched)
    inputs = helpers.padded_inputs()
    model(inputs)
    assert len(made) == 12
    # The layer's and the last one's, of both kinds in the decoder.
    assert max(most) <= 4
    made.clear()
    weights = model.attention(inputs)
    assert sum(map(len, weights.values())) == 12
    assert max(most) == 12


def test_a_single_token_gives_no_warning(recwarn):
    ids = np.array([[4]], "int32")
    helpers.variant("paper")({"source": ids, "target": ids})
    assert [str(warning.message) for warning in recwarn] == []


def test_dropout_only_in_training():
    model = kt.Transformer(helpers.config(dropout=0.5))
    inputs = helpers.padded_inputs()
    plain = helpers.logits(model, inputs)
    np.testing.assert_array_equal(helpers.logits(model, inputs), plain)
    first = helpers.to_numpy(model(inputs, training=True))
    second = helpers.to_numpy(model(inputs, training=True))
    assert np.abs(first - plain).max() > 1e-2
    assert np.abs(first - second).max() > 1e-2


def test_dropout_is_where_the_paper_puts_it(monkeypatch):
    def expectation(layer, inputs, training=False):
        return inputs * (1.0 - layer.rate) if training else inputs

    monkeypatch.setattr(Dropout, "call", expectation)
    for norm in ("post", "pre"):
        model = kt.Transformer(
            helpers.config(
                norm=norm,
                dropout=0.1,
                attention_dropout=0.25,
                activation_dropout=0.5,
            )
        )
        helpers.randomise(model)
        inputs = helpers.padded_inputs()
        weights = helpers.weights_by_name(model)
        pairs = whole_model.run_batch(model.config, weights, inputs, True)
        logits = helpers.to_numpy(model(inputs, training=True))
        real = inputs["target"] != 0
        expected = np.stack([pair.logits for pair in pairs])[real]
        assert helpers.relative_error(logits[real], expected) <= TOLERANCE
