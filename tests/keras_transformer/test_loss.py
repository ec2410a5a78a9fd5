"""Label-smoothed cross-entropy against an explicit distribution."""

import math

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.loss import projected_losses
from tests.keras_transformer import helpers, reference
from tests.keras_transformer.gradients import (
    check_gradients,
    gradients_by_arrays,
    randoms,
)

GENERATOR = np.random.default_rng(2)
LOGITS = (4 * GENERATOR.normal(size=(3, 5, 9))).astype("float32")
# The last word of the first sentence is the one that is right.
LOGITS[0, 4, 7] = 9.0
LABELS = helpers.sentences(GENERATOR, [5, 2, 3], 5, vocabulary=9)
LABELS[0, 4] = 7


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.2, 0.9])
def test_mean_over_tokens_that_are_not_padding(smoothing):
    loss = kt.LabelSmoothedCrossEntropy(smoothing)
    expected = reference.mean_loss(LOGITS, LABELS, smoothing)
    value = loss(LABELS, LOGITS)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert float(value) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_each_token(smoothing):
    loss = kt.LabelSmoothedCrossEntropy(smoothing)
    found = loss.token_losses(LABELS, LOGITS)
    smoothed, plain, correct = map(helpers.to_numpy, found)
    for place in np.ndindex(*LABELS.shape):
        label = LABELS[place]
        for actual, epsilon in ((smoothed, smoothing), (plain, 0.0)):
            expected = reference.smoothed_loss(LOGITS[place], label, epsilon)
            expected = expected if label else 0.0
            assert actual[place] == pytest.approx(expected, 2e-6, 2e-6)
        right = label != 0 and LOGITS[place].argmax() == label
        assert correct[place] == right
    assert 0 < correct.sum() < np.count_nonzero(LABELS)


def test_by_hand():
    """Logits 0, log 2 and log 5 are probabilities 1/8, 2/8 and 5/8."""
    logits = np.log(np.array([[[1.0, 2.0, 5.0]]], "float32"))
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    by_hand = -(
        0.9 * math.log(5 / 8) + 0.05 * math.log(1 / 8) + 0.05 * math.log(2 / 8)
    )
    assert float(loss(np.array([[2]]), logits)) == pytest.approx(by_hand)


def test_what_stands_on_padding_does_not_matter():
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    wild = LOGITS.copy()
    wild[LABELS == 0] = 1e4
    assert float(loss(LABELS, wild)) == float(loss(LABELS, LOGITS))


def test_sample_weights():
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    weights = GENERATOR.random((3, 5)).astype("float32")
    each = helpers.to_numpy(loss.call(LABELS, LOGITS))
    kept = weights * (LABELS != 0)
    expected = (each * kept).sum() / kept.sum()
    actual = float(loss(LABELS, LOGITS, sample_weight=weights))
    assert actual == pytest.approx(expected, rel=1e-6)


def test_one_weight_a_sentence():
    """As Keras hands on `fit(..., sample_weight=[B])`; here B = T."""
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    weights = np.array([0.0, 1.0, 3.0], "float32")
    labels, logits = LABELS[:, :3], LOGITS[:, :3]
    each = helpers.to_numpy(loss.call(labels, logits))
    kept = weights[:, None] * (labels != 0)
    expected = (each * kept).sum() / kept.sum()
    actual = float(loss(labels, logits, sample_weight=weights))
    assert actual == pytest.approx(expected, rel=1e-6)


def test_only_padding_gives_0():
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    assert float(loss(np.zeros_like(LABELS), LOGITS)) == 0.0


def test_large_logits_of_half_width():
    logits = ops.cast(100 * LOGITS, "bfloat16")
    expected = reference.mean_loss(helpers.to_numpy(logits), LABELS, 0.1)
    value = kt.LabelSmoothedCrossEntropy(0.1)(LABELS, logits)
    assert float(value) == pytest.approx(expected, rel=1e-6)


def test_survives_serialisation():
    loss = kt.LabelSmoothedCrossEntropy(0.3, name="mine")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(again, kt.LabelSmoothedCrossEntropy)
    assert again.get_config() == loss.get_config()
    assert float(again(LABELS, LOGITS)) == float(loss(LABELS, LOGITS))


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_a_reduction_is_obeyed_or_refused(reduction):
    """It must not be accepted and then give the mean all the same."""
    try:
        loss = kt.LabelSmoothedCrossEntropy(0.1, reduction=reduction)
    except (TypeError, ValueError):
        return
    each = helpers.to_numpy(loss.call(LABELS, LOGITS))
    expected = each.sum() if reduction == "sum" else each
    actual = helpers.to_numpy(loss(LABELS, LOGITS))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


FEW_LABELS = np.array([[4, 1, 3], [6, 0, 0]], "int32")
STATES, MATRIX = randoms(2, 3, 5), randoms(7, 5)


def losses_by_formula(states, matrix, smoothing):
    logits = states @ matrix.T
    losses = np.zeros(FEW_LABELS.shape)
    for place in np.ndindex(*FEW_LABELS.shape):
        if FEW_LABELS[place]:
            losses[place] = reference.smoothed_loss(
                logits[place], FEW_LABELS[place], smoothing
            )
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_losses_of_projected_states(smoothing):
    found = projected_losses(STATES, MATRIX, FEW_LABELS, smoothing)
    smoothed, plain, correct = map(helpers.to_numpy, found)
    for actual, epsilon in ((smoothed, smoothing), (plain, 0.0)):
        expected = losses_by_formula(STATES, MATRIX, epsilon)
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)
    best = (STATES @ MATRIX.T).argmax(-1)
    np.testing.assert_array_equal(
        correct, (best == FEW_LABELS) & (FEW_LABELS != 0)
    )
    # Both kinds of loss have a gradient: the second one as reported.
    for field, epsilon in (("smoothed", smoothing), ("plain", 0.0)):
        check_gradients(
            lambda states, matrix, field=field: getattr(
                projected_losses(states, matrix, FEW_LABELS, smoothing), field
            ),
            lambda states, matrix, epsilon=epsilon: losses_by_formula(
                states, matrix, epsilon
            ),
            [STATES, MATRIX],
        )


def test_what_labels_have_of_the_gradient_can_be_had_apart():
    def total(matrix, *label_rows):
        losses = projected_losses(STATES, matrix, FEW_LABELS, 0.1, *label_rows)
        return ops.sum(losses.smoothed)

    label_rows = MATRIX[FEW_LABELS]
    [whole] = gradients_by_arrays(total, MATRIX)
    rest, of_rows = gradients_by_arrays(total, MATRIX, label_rows)
    apart = np.zeros_like(MATRIX)
    np.add.at(apart, FEW_LABELS, of_rows)
    np.testing.assert_allclose(rest + apart, whole, 1e-5, 1e-6)
    assert np.abs(apart).max() > 0.1
    assert not of_rows[FEW_LABELS == 0].any()


def test_the_right_word_counts_as_correct():
    """The label's logit is the highest one for the first word only."""
    matrix = np.eye(7, 5, dtype="float32")
    states = np.zeros((2, 3, 5), "float32")
    states[0, 0, 4] = states[0, 1, 2] = states[1, 1, 0] = 9.0
    found = projected_losses(states, matrix, FEW_LABELS, 0.1).correct
    by_hand = [[1, 0, 1], [1, 0, 0]]
    # All logits are 0 in the third and the fourth word: none is higher.
    np.testing.assert_array_equal(helpers.to_numpy(found), by_hand)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_losses_of_very_large_logits_stay_finite(scale):
    states, matrix = scale * STATES, MATRIX
    found = projected_losses(states, matrix, FEW_LABELS, 0.1)
    expected = losses_by_formula(np.float64(states), np.float64(matrix), 0.1)
    np.testing.assert_allclose(helpers.to_numpy(found.smoothed), expected, 1e-5)
    assert expected.max() > 100

    def total(states, matrix):
        losses = projected_losses(states, matrix, FEW_LABELS, 0.1)
        return ops.sum(losses.smoothed)

    for gradient in gradients_by_arrays(total, states, matrix):
        assert np.isfinite(gradient).all()


def test_projected_states_of_half_width():
    states = ops.cast(STATES, "bfloat16")
    found = projected_losses(states, MATRIX, FEW_LABELS, 0.1).smoothed
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    expected = losses_by_formula(helpers.to_numpy(states), MATRIX, 0.1)
    np.testing.assert_allclose(helpers.to_numpy(found), expected, 1e-5, 1e-5)


def test_gradients_take_the_precision_of_the_states_with_xla_alone():
    """Of bfloat16 states products take 8 bits on JAX, 24 on TensorFlow."""
    states = np.float32(helpers.to_numpy(ops.cast(STATES, "bfloat16")))

    def gradient_by_matrix(dtype):
        def total(states, matrix):
            states = ops.cast(states, dtype)
            losses = projected_losses(states, matrix, FEW_LABELS, 0.1)
            return ops.sum(losses.smoothed)

        return gradients_by_arrays(total, states, MATRIX)[1]

    half, full = map(gradient_by_matrix, ("bfloat16", "float32"))
    error = np.abs(half - full).max() / np.abs(full).max()
    if keras.backend.backend() == "jax":
        assert 1e-4 < error < 1e-2
    else:
        assert error < 1e-6


@pytest.mark.parametrize("ignored", [-100, -1, -(2**31)])
def test_negative_labels_are_ignored_as_padding_is(ignored):
    logits = (STATES @ MATRIX.T).astype("float32")
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    labels = np.where(FEW_LABELS == 0, ignored, FEW_LABELS)
    assert float(loss(labels, logits)) == float(loss(FEW_LABELS, logits))
    for losses in (
        loss.token_losses,
        lambda ids, _: projected_losses(STATES, MATRIX, ids, 0.1),
    ):
        for pair in zip(losses(labels, logits), losses(FEW_LABELS, logits)):
            np.testing.assert_array_equal(*map(helpers.to_numpy, pair))
