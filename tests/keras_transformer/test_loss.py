"""Label-smoothed cross-entropy against an explicit distribution."""

import math

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, reference

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
    logits = keras.ops.cast(100 * LOGITS, "bfloat16")
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
