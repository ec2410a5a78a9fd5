"""Label-smoothed cross-entropy and R-Drop's penalty against their formulas."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.loss import linear_cross_entropy, symmetric_divergence
from tests.keras_transformer import helpers, reference
from tests.keras_transformer.gradients import (
    check_gradients,
    gradients_by_arrays,
    randoms,
)

GENERATOR = np.random.default_rng(2)
LOGITS = (4 * GENERATOR.normal(size=(3, 5, 9))).astype("float32")
# The last token of the first sentence is predicted correctly.
LOGITS[0, 4, 7] = 9.0
LABELS = helpers.sentences(GENERATOR, [5, 2, 3], 5, vocabulary=9)
LABELS[0, 4] = 7


def losses_by_formula(logits, labels, smoothing):
    losses = np.zeros(labels.shape)
    for place in np.ndindex(*labels.shape):
        if labels[place]:
            losses[place] = reference.smoothed_loss(
                logits[place], labels[place], smoothing
            )
    return losses


def check_losses(found, logits, labels, smoothing):
    """TokenLosses are those of logits in float64."""
    smoothed, plain, correct = map(helpers.to_numpy, found)
    for actual, epsilon in ((smoothed, smoothing), (plain, 0.0)):
        expected = losses_by_formula(np.float64(logits), labels, epsilon)
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)
    is_best = logits.argmax(-1) == labels
    np.testing.assert_array_equal(correct, is_best & (labels != 0))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_losses_of_logits(smoothing):
    loss = kt.LabelSmoothedCrossEntropy(smoothing)
    value = loss(LABELS, LOGITS)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    expected = reference.mean_loss(LOGITS, LABELS, smoothing)
    assert float(value) == pytest.approx(expected, rel=1e-6)
    check_losses(loss.token_losses(LABELS, LOGITS), LOGITS, LABELS, smoothing)
    # What stands on padding does not matter.
    wild = np.where(LABELS[..., None] == 0, np.float32(1e4), LOGITS)
    assert float(loss(LABELS, wild)) == float(value)
    assert float(loss(np.zeros_like(LABELS), LOGITS)) == 0.0


# One for each token, or for each sentence; here B = T.
@pytest.mark.parametrize("shape", [(3, 3), (3,)])
def test_sample_weights(shape):
    weights = np.random.default_rng(3).random(shape).astype("float32")
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    labels, logits = LABELS[:, :3], LOGITS[:, :3]
    each = helpers.to_numpy(loss.call(labels, logits))
    by_token = weights if weights.ndim == 2 else weights[:, None]
    by_token = by_token * (labels != 0)
    expected = (each * by_token).sum() / by_token.sum()
    actual = float(loss(labels, logits, sample_weight=weights))
    assert actual == pytest.approx(expected, rel=1e-6)


def test_large_bfloat16_logits_are_summed_in_float32():
    logits = ops.cast(100 * LOGITS, "bfloat16")
    expected = reference.mean_loss(helpers.to_numpy(logits), LABELS, 0.1)
    value = kt.LabelSmoothedCrossEntropy(0.1)(LABELS, logits)
    assert float(value) == pytest.approx(expected, rel=1e-6)


def test_serialization_and_invalid_arguments():
    loss = kt.LabelSmoothedCrossEntropy(0.3, name="mine")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(again, kt.LabelSmoothedCrossEntropy)
    assert again.get_config() == loss.get_config()
    for invalid in ({"reduction": "some"}, {"smoothing": 1.0}):
        with pytest.raises(ValueError):
            kt.LabelSmoothedCrossEntropy(**invalid)


@pytest.mark.parametrize(
    "reduction, divisor",
    [
        ("mean_with_sample_weight", None),
        ("sum_over_batch_size", LABELS.size),
        ("sum", 1),
    ],
)
def test_reductions_and_keras_masks(reduction, divisor):
    """A mask of Keras, as that of an embedding, joins padding and weights."""
    weights = np.array([0.5, 2.0, 1.0], "float32")
    mask = np.arange(5) != 1
    logits = keras.layers.Masking()(LOGITS * mask[:, None])
    loss = kt.LabelSmoothedCrossEntropy(reduction=reduction)
    found = float(loss(LABELS, logits, sample_weight=weights))
    each = losses_by_formula(np.float64(LOGITS), LABELS, 0.1)
    by_token = weights[:, None] * (LABELS != 0) * mask
    expected = (each * by_token).sum() / (divisor or by_token.sum())
    if reduction == "sum_over_batch_size":
        # Keras divides by the positions that are not masked.
        expected /= mask.mean()
    assert found == pytest.approx(expected, rel=1e-5)


def test_16_bits_round_neither_labels_nor_the_loss():
    logits = np.zeros((1, 1, 3000), "float32")
    logits[..., 2999] = 5.0
    loss = kt.LabelSmoothedCrossEntropy(0.1, dtype="bfloat16")
    expected = reference.mean_loss(logits, np.array([[2999]]), 0.1)
    found = loss(np.array([[2999]]), logits)
    assert float(found) == pytest.approx(expected, rel=1e-6)


FEW_LABELS = np.array([[4, 1, 3], [6, 0, 0]], "int32")
STATES, MATRIX, BIAS = randoms(2, 3, 5), randoms(7, 5), randoms(7)


def check_sums(found, logits, labels, smoothing):
    """Sums of TokenLosses are those of logits in float64."""
    plain, smoothed = (
        losses_by_formula(np.float64(logits), labels, epsilon).sum()
        for epsilon in (0.0, smoothing)
    )
    correct = ((logits.argmax(-1) == labels) & (labels != 0)).sum()
    np.testing.assert_allclose(
        [*map(float, found)], [smoothed, plain, correct], 1e-5
    )


@pytest.mark.parametrize(
    "smoothing, with_bias", [(0.0, False), (0.1, True), (0.9, False)]
)
def test_linear_cross_entropy(smoothing, with_bias):
    arrays = [STATES, MATRIX, BIAS][: 2 + with_bias]

    def losses(states, matrix, bias=None):
        return linear_cross_entropy(states, matrix, FEW_LABELS, smoothing, bias)

    def logits(states, matrix, bias=0.0):
        return states @ matrix.T + bias

    check_sums(losses(*arrays), logits(*arrays), FEW_LABELS, smoothing)
    check_gradients(
        lambda *tensors: losses(*tensors).smoothed,
        lambda *values: losses_by_formula(
            logits(*values), FEW_LABELS, smoothing
        ).sum(),
        arrays,
    )


def test_an_excluded_id_leaves_the_loss_its_digits():
    excluding = np.where(np.arange(7) == 5, np.float32(-1e9), BIAS)
    found = linear_cross_entropy(STATES, MATRIX, FEW_LABELS, 0.1, excluding)
    logits = STATES @ MATRIX.T + np.maximum(excluding, -100)
    check_sums(found, logits, FEW_LABELS, 0.1)
    logits[..., 5] = -100
    expected = reference.mean_loss(logits, FEW_LABELS, 0.1)
    logits[..., 5] = -1e9
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    assert float(loss(FEW_LABELS, logits)) == pytest.approx(expected, 1e-5)


def test_chunks_do_not_change_the_sums(monkeypatch):
    labels = helpers.sentences(GENERATOR, [5, 2, 3], 5, vocabulary=7)
    states = randoms(3, 5, 5)

    def loss(states, matrix):
        return linear_cross_entropy(states, matrix, labels, 0.1).smoothed

    expected = float(loss(states, MATRIX))
    gradients = gradients_by_arrays(loss, states, MATRIX)
    # Chunks of 2 tokens of each sentence, the last of 1.
    monkeypatch.setattr("keras_transformer.loss._CHUNK_TOKENS", 6)
    assert float(loss(states, MATRIX)) == pytest.approx(expected, rel=1e-6)
    for pair in zip(gradients_by_arrays(loss, states, MATRIX), gradients):
        np.testing.assert_allclose(*pair, 1e-5, 1e-6)


def total_loss(states, matrix, label_embeddings=None):
    losses = linear_cross_entropy(
        states, matrix, FEW_LABELS, 0.1, label_embeddings=label_embeddings
    )
    return losses.smoothed


def test_the_gradient_of_label_embeddings_can_be_separate():
    _, whole = gradients_by_arrays(total_loss, STATES, MATRIX)
    _, rest, by_label = gradients_by_arrays(
        total_loss, STATES, MATRIX, MATRIX[FEW_LABELS]
    )
    separate = np.zeros_like(MATRIX)
    np.add.at(separate, FEW_LABELS, by_label)
    np.testing.assert_allclose(rest + separate, whole, 1e-5, 1e-6)
    assert np.abs(separate).max() > 0.1
    assert not by_label[FEW_LABELS == 0].any()


def test_very_large_logits_stay_finite():
    states = 1e4 * STATES
    found = linear_cross_entropy(states, MATRIX, FEW_LABELS, 0.1)
    expected = losses_by_formula(
        np.float64(states) @ MATRIX.T, FEW_LABELS, 0.1
    ).sum()
    assert float(found.smoothed) == pytest.approx(expected, rel=1e-5)
    assert expected > 100
    for gradient in gradients_by_arrays(total_loss, states, MATRIX):
        assert np.isfinite(gradient).all()


def test_bfloat16_states():
    """Gradients' products take 8 bits on JAX, 24 on TensorFlow."""
    half = ops.cast(STATES, "bfloat16")
    found = linear_cross_entropy(half, MATRIX, FEW_LABELS, 0.1)
    check_sums(found, helpers.to_numpy(half) @ MATRIX.T, FEW_LABELS, 0.1)
    rounded, full = (
        gradients_by_arrays(
            lambda states, matrix, dtype=dtype: total_loss(
                ops.cast(states, dtype), matrix
            ),
            np.float32(helpers.to_numpy(half)),
            MATRIX,
        )[1]
        for dtype in ("bfloat16", "float32")
    )
    error = np.abs(rounded - full).max() / np.abs(full).max()
    assert error < (1e-2 if keras.backend.backend() == "jax" else 1e-6)


def test_negative_labels_are_ignored_as_padding_is():
    logits = (STATES @ MATRIX.T).astype("float32")
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    labels = np.where(FEW_LABELS == 0, -100, FEW_LABELS)
    assert float(loss(labels, logits)) == float(loss(FEW_LABELS, logits))
    for losses in (
        lambda ids: loss.token_losses(ids, logits),
        lambda ids: linear_cross_entropy(STATES, MATRIX, ids, 0.1),
    ):
        for pair in zip(losses(labels), losses(FEW_LABELS)):
            np.testing.assert_array_equal(*map(helpers.to_numpy, pair))


FIRST, SECOND = (3 * GENERATOR.normal(size=(2, 2, 3, 5))).astype("float32")


def divergence_by_formula(first, second):
    """(KL(p || q) + KL(q || p)) / 2, from probabilities."""
    p, q = (np.exp(np.float64(each)) for each in (first, second))
    p, q = (each / each.sum(-1, keepdims=True) for each in (p, q))
    return 0.5 * (p * np.log(p / q) + q * np.log(q / p)).sum(-1)


def test_symmetric_divergence():
    found = helpers.to_numpy(symmetric_divergence(FIRST, SECOND))
    expected = divergence_by_formula(FIRST, SECOND)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    check_gradients(
        symmetric_divergence, divergence_by_formula, [FIRST, SECOND]
    )
    half = [ops.cast(each, "bfloat16") for each in (FIRST, SECOND)]
    expected = divergence_by_formula(*map(helpers.to_numpy, half))
    rounded = helpers.to_numpy(symmetric_divergence(*half))
    np.testing.assert_allclose(rounded, expected, rtol=1e-5)
    far = np.array([[1e4, 0.0]], "float32")
    found = float(symmetric_divergence(far, -far)[0])
    assert found == pytest.approx(1e4, rel=1e-6)
