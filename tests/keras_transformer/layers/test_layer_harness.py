"""Keras' own test of a layer, run over every public one."""

import keras
import pytest
from keras.src import testing

import keras_transformer as kt
from tests.keras_transformer.layers.layer_samples import CONFIG

# Of the harness' own training step; the sinusoid has no weights.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable"),
]

ATTENTION = {"d_model": 12, "num_heads": 2, "d_k": 3, "d_v": 5}
STATES = (2, 4, 12)

ONE_INPUT = [
    (kt.MultiHeadAttention, {**ATTENTION, "dropout": 0.1, "window": 2}),
    (kt.PositionwiseFeedForward, {"d_model": 12, "d_ff": 10, "dropout": 0.1}),
    (kt.EncoderLayer, {"config": CONFIG}),
    (kt.Encoder, {"config": CONFIG}),
    (kt.SinusoidalPositionEncoding, {}),
    (kt.LearnedPositionEmbedding, {"max_positions": 9}),
]
TWO_INPUTS = [
    (kt.MultiHeadAttention, ATTENTION, ("query", "memory")),
    (kt.DecoderLayer, {"config": CONFIG}, ("inputs", "memory")),
    (kt.Decoder, {"config": CONFIG}, ("inputs", "memory")),
    (kt.ResidualConnection, {"dropout": 0.1}, ("inputs", "outputs")),
]


def run(layer, arguments, **settings):
    # The class has the checks; unittest's own are its methods.
    testing.TestCase().run_layer_test(
        layer,
        arguments,
        expected_output_shape=STATES,
        supports_masking=True,
        **settings,
    )


def test_every_public_layer_is_here():
    public = {
        each
        for each in map(vars(kt).get, kt.__all__)
        if isinstance(each, type)
        and issubclass(each, keras.layers.Layer)
        and not issubclass(each, keras.Model)
    }
    tested = {layer for layer, *_ in ONE_INPUT + TWO_INPUTS}
    assert public == tested | {kt.SharedEmbedding}


@pytest.mark.parametrize("layer, arguments", ONE_INPUT)
def test_layers_of_one_input(layer, arguments):
    run(layer, arguments, input_shape=STATES)


@pytest.mark.parametrize("layer, arguments, names", TWO_INPUTS)
def test_layers_of_two_inputs(layer, arguments, names):
    shapes = {f"{name}_shape": STATES for name in names}
    # Its training step gives a layer one input alone.
    run(layer, arguments, input_shape=shapes, run_training_check=False)


def test_embedding():
    run(
        kt.SharedEmbedding,
        {"vocabulary_size": 11, "d_model": 12, "mask_zero": True},
        input_shape=STATES[:2],
        input_dtype="int32",
    )
