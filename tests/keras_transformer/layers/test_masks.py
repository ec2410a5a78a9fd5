"""Keras' implicit masks: taken, joined with explicit ones, handed on."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import (
    LAYERS,
    MEMORY,
    STATES,
    make,
)

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
OF_ONE = ["self-attention", "encoder layer", "encoder"]
OF_TWO = ["cross-attention", "decoder layer", "decoder"]


def with_padding(states) -> np.ndarray:
    """The states with padding in unreal positions, and behind."""
    real = np.pad(REAL[:, : states.shape[1]], ((0, 0), (0, PADS)))
    states = np.pad(states, ((0, 0), (0, PADS), (0, 0)))
    return np.where(real[..., None], states, np.float32(PADDING))


def masked(states):
    """The same as a tensor that carries a mask of what is real in it."""
    return keras.layers.Masking(PADDING)(
        ops.convert_to_tensor(with_padding(states))
    )


def widened(mask) -> np.ndarray:
    """A mask for padded queries and keys that leaves padding to others."""
    behind = ((0, 0), (0, PADS), (0, PADS))
    return np.pad(mask, behind, constant_values=True)


def check_real(actual, alone) -> None:
    """Compares real positions with what each sentence gives by itself."""
    for row, length in enumerate(REAL.sum(axis=1)):
        np.testing.assert_allclose(
            helpers.to_numpy(actual)[row, :length],
            helpers.to_numpy(alone(slice(row, row + 1), length))[0],
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize(
    "name", sorted(LAYERS.keys() - {"embedding", "output bias"})
)
def test_hands_its_mask_on(name, recwarn):
    layer, inputs = make(name)
    outputs = layer(*map(masked, inputs))
    pooled = keras.layers.GlobalAveragePooling1D()(outputs)
    assert [str(each.message) for each in recwarn] == []
    for row, length in enumerate(REAL.sum(axis=1)):
        np.testing.assert_allclose(
            helpers.to_numpy(pooled)[row],
            helpers.to_numpy(outputs)[row, :length].mean(axis=0),
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("name", OF_ONE)
def test_padding_changes_nothing(name, joined):
    layer, _ = make(name)

    def alone(row, length):
        mask = SELF_MASK[:, :length, :length] if joined else None
        return layer(STATES[row, :length], attention_mask=mask)

    mask = widened(SELF_MASK) if joined else None
    check_real(layer(masked(STATES), attention_mask=mask), alone)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("name", OF_TWO)
def test_a_padded_memory_changes_nothing(name, joined):
    layer, _ = make(name)
    argument = "attention_mask" if name == "cross-attention" else "memory_mask"

    def alone(row, length):
        mask = CROSS_MASK[:, :length] if joined else None
        return layer(STATES[row, :length], MEMORY[row], **{argument: mask})

    mask = widened(CROSS_MASK) if joined else None
    check_real(layer(masked(STATES), masked(MEMORY), **{argument: mask}), alone)


def classifier(embedding):
    """A Keras model of ids of any length, its weights always the same."""
    keras.utils.set_random_seed(1)
    ids = keras.Input((None,), dtype="int32")
    states = kt.SinusoidalPositionEncoding()(embedding(ids))
    states = kt.Encoder(2, 10, 2, 3)(states)
    states = keras.layers.GlobalAveragePooling1D()(states)
    return keras.Model(ids, keras.layers.Dense(2)(states))


@pytest.mark.parametrize(
    "embedding", [kt.SharedEmbedding, keras.layers.Embedding]
)
def test_a_model_that_masks_zero_answers_alike_with_padding(embedding):
    model = classifier(embedding(11, 12, mask_zero=True))
    ids = np.array([[4, 9, 10, 5], [7, 6, 4, 8]], "int32")
    behind = np.pad(ids, ((0, 0), (0, PADS)))
    for answer in (model, lambda each: model.predict(each, verbose=0)):
        np.testing.assert_allclose(
            helpers.to_numpy(answer(behind)),
            helpers.to_numpy(answer(ids)),
            rtol=1e-5,
            atol=1e-5,
        )


def test_an_embedding_masks_nothing_unless_asked():
    ids = np.array([[4, 0]], "int32")
    assert kt.SharedEmbedding(11, 12).compute_mask(ids) is None
    embedding = kt.SharedEmbedding(11, 12, mask_zero=True)
    again = kt.SharedEmbedding.from_config(embedding.get_config())
    for layer in (embedding, again):
        mask = ops.convert_to_numpy(layer.compute_mask(ids))
        assert mask.tolist() == [[True, False]]
    # Configurations of before there was a mask.
    old = {"vocabulary_size": 11, "d_model": 12}
    assert not kt.SharedEmbedding.from_config(old).mask_zero
