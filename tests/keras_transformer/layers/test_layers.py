"""Each layer alone against the NumPy float64 reference."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, reference

TOLERANCE = 1e-5
GENERATOR = np.random.default_rng(11)
INPUTS = GENERATOR.normal(size=(2, 4, 12)).astype("float32")
MEMORY = GENERATOR.normal(size=(2, 3, 12)).astype("float32")
# Every query has a key left to attend to.
SELF_MASK = GENERATOR.random((2, 4, 4)) < 0.6
SELF_MASK |= np.eye(4, dtype=bool)
CROSS_MASK = GENERATOR.random((2, 4, 3)) < 0.6
CROSS_MASK[..., 1] = True


def built(layer, *shapes):
    layer.build(*shapes)
    helpers.randomise(layer, seed=12)
    weights = {
        weight.path.removeprefix(layer.name + "/"): helpers.to_numpy(weight)
        for weight in layer.trainable_variables
    }
    return layer, weights


def check_rows(found, expected):
    """A layer's outputs and scores, by row those of the reference."""
    for row, wanted in enumerate(expected):
        pairs = zip(*map(keras.tree.flatten, (found, wanted)), strict=True)
        for actual, part in pairs:
            assert helpers.relative_error(actual[row], part) <= TOLERANCE


@pytest.mark.parametrize(
    "sizes, use_bias", [((2, 3, 5), True), ((1, 12, 12), False)]
)
def test_self_attention(sizes, use_bias):
    layer, weights = built(
        kt.MultiHeadAttention(*sizes, use_bias=use_bias), INPUTS.shape
    )
    assert ("output_projection/bias" in weights) == use_bias
    keywords = {"attention_mask": SELF_MASK, "return_attention_scores": True}
    expected = [
        reference.multi_head(weights, x, x, sizes, mask)
        for x, mask in zip(INPUTS, SELF_MASK)
    ]
    check_rows(layer(INPUTS, **keywords), expected)


@pytest.mark.parametrize("memory_width", [12, 7])
def test_cross_attention(memory_width):
    sizes, memory = (2, 3, 5), MEMORY[..., :memory_width]
    layer, weights = built(
        kt.MultiHeadAttention(*sizes), INPUTS.shape, memory.shape
    )
    keywords = {"attention_mask": CROSS_MASK, "return_attention_scores": True}
    expected = [
        reference.multi_head(weights, x, m, sizes, mask)
        for x, m, mask in zip(INPUTS, memory, CROSS_MASK)
    ]
    check_rows(layer(INPUTS, memory, **keywords), expected)
    assert layer.compute_output_shape(INPUTS.shape, memory.shape) == (2, 4, 12)


def test_window_is_for_self_attention():
    layer = kt.MultiHeadAttention(2, 3, 5, attention_window=1)
    with pytest.raises(ValueError, match="self-attention only"):
        layer.build(INPUTS.shape, MEMORY.shape)


def test_masked_and_very_large_scores_stay_finite():
    layer, _ = built(kt.MultiHeadAttention(2, 3, 5), INPUTS.shape)
    nowhere = np.zeros((2, 4), bool)
    for inputs, mask in ((INPUTS, nowhere), (1e4 * INPUTS, SELF_MASK)):
        outputs = helpers.to_numpy(layer(inputs, attention_mask=mask))
        assert np.isfinite(outputs).all()


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_feed_forward(activation):
    layer, weights = built(
        kt.PositionwiseFeedForward(10, activation=activation),
        INPUTS.shape,
    )
    expected = reference.feed_forward(weights, INPUTS, activation)
    assert helpers.relative_error(layer(INPUTS), expected) <= TOLERANCE


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual(norm):
    layer, weights = built(
        kt.ResidualConnection(norm == "pre", epsilon=1e-3), INPUTS.shape
    )
    gamma_beta = reference.below(weights, "layer_norm")
    outputs = 3.0 * INPUTS[..., ::-1]
    entered, left = layer.normalize_input(INPUTS), layer(INPUTS, outputs)
    unchanged, normed, inputs = left, entered, INPUTS
    if norm == "post":
        unchanged, normed, inputs = entered, left, INPUTS + outputs
    expected = np.stack(
        [reference.layer_norm(gamma_beta, row, 1e-3) for row in inputs]
    )
    assert helpers.relative_error(normed, expected) <= TOLERANCE
    wanted = INPUTS if norm == "post" else INPUTS + outputs
    np.testing.assert_array_equal(helpers.to_numpy(unchanged), wanted)


def made(kind, config, *num_layers):
    """A layer or a stack as a model of the config has it."""
    sizes = config.d_ff, config.num_heads, config.d_k, config.d_v
    layer = kind(*num_layers, *sizes, normalize_first=config.norm == "pre")
    shapes = [INPUTS.shape, MEMORY.shape]
    return built(layer, *shapes[: 1 + ("Decoder" in kind.__name__)])


@pytest.mark.parametrize(
    "kind, run, norm, num_layers, masked",
    [
        (kt.DecoderLayer, reference.decoder_layer, "pre", (), False),
        (kt.Decoder, reference.decoder, "post", (2,), True),
    ],
)
def test_a_decoder_is_causal_whatever_the_mask(
    kind, run, norm, num_layers, masked
):
    config = helpers.config(norm=norm)
    layer, weights = made(kind, config, *num_layers)
    masks = {"attention_mask": SELF_MASK, "memory_mask": CROSS_MASK}
    keywords = masks if masked else {}
    allowed = np.tril(SELF_MASK if masked else np.ones((2, 4, 4), bool))
    crossed = CROSS_MASK if masked else np.ones((2, 4, 3), bool)
    expected = [
        run(config, weights, *row)
        for row in zip(INPUTS, MEMORY, allowed, crossed)
    ]
    found = layer(INPUTS, MEMORY, **keywords, return_attention_scores=True)
    check_rows(found, expected)
    found = layer(INPUTS, MEMORY, **keywords)
    check_rows(found, [triple[0] for triple in expected])
