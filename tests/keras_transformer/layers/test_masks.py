"""Keras' implicit masks: taken, joined with explicit ones, handed on."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import MEMORY, STATES, make

PADS = 5
# keras.layers.Masking masks a position that holds nothing else.
PADDING = 7.0
# Real positions of two sentences; of MEMORY all three are.
REAL = np.array([[True] * 4, [True] * 3 + [False]])
# Every real query has a real key left to attend to.
SELF_MASK = np.array(
    [[[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]]], bool
)
CROSS_MASK = np.array([[[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]]], bool)


def check_close(actual, expected):
    actual, expected = map(helpers.to_numpy, (actual, expected))
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


def masked(states):
    """States, padded, with a mask of what is real in them."""
    real = np.pad(REAL[:, : states.shape[1]], ((0, 0), (0, PADS)))
    states = np.pad(states, ((0, 0), (0, PADS), (0, 0)))
    states = np.where(real[..., None], states, np.float32(PADDING))
    return keras.layers.Masking(PADDING)(ops.convert_to_tensor(states))


@pytest.mark.parametrize("name", ["cross-attention", "sinusoid", "decoder"])
def test_hands_its_mask_on(name, recwarn):
    layer, inputs = make(name)
    outputs = layer(*map(masked, inputs))
    pooled = keras.layers.GlobalAveragePooling1D()(outputs)
    assert [str(each.message) for each in recwarn] == []
    for row, length in enumerate(REAL.sum(axis=1)):
        mean = helpers.to_numpy(outputs)[row, :length].mean(axis=0)
        check_close(pooled[row], mean)


@pytest.mark.parametrize(
    "name, joined",
    [("self-attention", True), ("encoder", False), ("decoder", True)],
)
def test_padding_changes_nothing(name, joined):
    """A sentence's outputs are those that it has alone, without padding."""
    layer, inputs = make(name)
    argument, mask = "attention_mask", SELF_MASK
    if len(inputs) == 2:
        argument, mask = "memory_mask", CROSS_MASK
    # Padding is left to the implicit masks.
    wide = np.pad(mask, ((0, 0), (0, PADS), (0, PADS)), constant_values=True)
    keywords = {argument: wide} if joined else {}
    found = layer(*map(masked, inputs), **keywords)
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = [STATES[row : row + 1, :length]]
        own_mask = mask[:, :length, :length]
        if len(inputs) == 2:
            alone.append(MEMORY[row : row + 1])
            own_mask = mask[:, :length]
        keywords = {argument: own_mask} if joined else {}
        check_close(found[row, :length], layer(*alone, **keywords)[0])


def test_a_classifier_with_mask_zero():
    ids = keras.Input((None,), dtype="int32")
    states = kt.SharedEmbedding(11, 12, mask_zero=True)(ids)
    states = kt.SinusoidalPositionEncoding()(states)
    states = kt.Encoder(2, 10, 2, 3)(states)
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(states))
    ids = np.array([[4, 9, 10, 5], [7, 6, 4, 8]], "int32")
    padded = np.pad(ids, ((0, 0), (0, PADS)))
    check_close(model(padded), model(ids))
    # Nothing is masked by default.
    assert kt.SharedEmbedding(11, 12).compute_mask(ids) is None
