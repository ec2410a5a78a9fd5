"""What runs in bfloat16, and what stays in float32."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model

INPUTS = helpers.padded_inputs()
REAL = INPUTS["target"] != 0


@pytest.fixture(name="model", scope="module")
def fixture_model():
    made = kt.Transformer(helpers.config(), dtype="mixed_bfloat16")
    helpers.randomise(made, seed=1)
    return made


def dtype_of(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def test_weights_logits_attention_and_loss_are_float32(model):
    assert {dtype_of(weight) for weight in model.weights} == {"float32"}
    logits = model(INPUTS)
    for layers in model.attention(INPUTS).values():
        for weights in layers:
            assert dtype_of(weights) == "float32"
            # Far closer to 1, or 0 for padding, than bfloat16 could be.
            sums = helpers.to_numpy(weights).sum(axis=-1)
            assert np.isin(sums.round(6), (0.0, 1.0)).all()
    memory = model.encode(INPUTS["source"])
    assert dtype_of(memory) == "bfloat16"
    loss = kt.LabelSmoothedCrossEntropy()
    value = loss(INPUTS["target"], keras.ops.cast(logits, "bfloat16"))
    assert {dtype_of(x) for x in (logits, value)} == {"float32"}


def test_logits_are_a_float32_product_near_the_reference(model):
    """Of float32 weights, too: rounded to bfloat16 they differ by 2e-3."""
    _, states = model.hidden_states(INPUTS)
    assert dtype_of(states) == "bfloat16"
    weights = helpers.weights_by_name(model)
    table = weights["target_embedding/embeddings"]
    expected = (helpers.to_numpy(states) @ table.T)[REAL]
    found = helpers.to_numpy(model(INPUTS))[REAL]
    assert helpers.relative_error(found, expected) < 1e-6
    whole = whole_model.logits(model.config, weights, INPUTS)[REAL]
    assert 1e-5 < helpers.relative_error(expected, whole) < 0.05
