"""Label-smoothed cross-entropy: section 5.4."""

import typing

import keras
from keras import ops

from keras_transformer.own_gradient import own_gradient
from keras_transformer.special_ids import PAD_ID


class TokenLosses(typing.NamedTuple):
    """What is known of each target token, float32 [B, T]; 0 on padding.

    Attributes:
        smoothed: the loss.
        plain: negative log-probability of the label, without smoothing;
            perplexity is reported from it.
        correct: 1 where no logit is higher than the label's.
    """

    smoothed: typing.Any
    plain: typing.Any
    correct: typing.Any


@keras.saving.register_keras_serializable("keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against (1 - e) on the label, e / (V - 1) on the rest.

    It is computed from the log-normaliser, the label's logit and the sum of
    logits; neither a one-hot nor a log-softmax [B, T, V] is made. Calling it
    gives the mean over the target tokens that are not padding.

    Args:
        smoothing: e, epsilon_ls.
        name: of the loss.
        **kwargs: of `keras.losses.Loss`.

    Raises:
        ValueError: another `reduction` is asked for.
    """

    def __init__(
        self, smoothing=0.1, name="label_smoothed_cross_entropy", **kwargs
    ):
        super().__init__(name=name, **kwargs)
        if self.reduction != "sum_over_batch_size":
            raise ValueError(
                "The reduction is always the mean over target tokens, not "
                f"{self.reduction!r}; for each token's loss use call()."
            )
        self.smoothing = smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the mean loss per target token.

        Args:
            y_true: int32 [B, T], 0 on padding.
            y_pred: logits, float [B, T, V].
            sample_weight: float [B], a weight for each sentence, or
                broadcastable to [B, T]; None for equal weights.

        Returns:
            float32 scalar.
        """
        losses = self.call(y_true, y_pred)
        weights = ops.cast(ops.not_equal(y_true, PAD_ID), losses.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight, losses.dtype)
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        total = ops.sum(weights)
        return ops.sum(losses * weights) / ops.maximum(total, 1e-9)

    def call(self, y_true, y_pred):
        """Returns each token's loss, float32 [B, T]; 0 on padding."""
        return self.token_losses(y_true, y_pred).smoothed

    def token_losses(self, y_true, y_pred):
        """Returns each token's losses.

        Args:
            y_true: int32 [B, T], 0 on padding.
            y_pred: logits, float [B, T, V].

        Returns:
            TokenLosses.
        """
        logits = ops.cast(y_pred, "float32")
        labels = ops.cast(y_true, "int32")
        return losses_of_summaries(
            _summaries(logits, labels),
            labels,
            logits.shape[-1],
            self.smoothing,
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "smoothing": self.smoothing}


def losses_of_summaries(summaries, labels, vocabulary_size, smoothing):
    """Returns each token's losses from what is known of its logits.

    Args:
        summaries: float32 [..., 4]: the logits' log-normaliser, the label's
            logit, the sum of the logits and the highest one.
        labels: int32 [...], 0 on padding.
        vocabulary_size: V.
        smoothing: e, epsilon_ls.

    Returns:
        TokenLosses.
    """
    normaliser, label_logits, sums, maxima = ops.unstack(summaries, axis=-1)
    share = smoothing / (vocabulary_size - 1)
    smoothed = (
        normaliser - (1.0 - smoothing - share) * label_logits - share * sums
    )
    real = ops.cast(ops.not_equal(labels, PAD_ID), "float32")
    # A maximum costs less than an argmax over V.
    best = label_logits >= maxima
    return TokenLosses(
        smoothed=smoothed * real,
        plain=(normaliser - label_logits) * real,
        correct=ops.cast(best, "float32") * real,
    )


def _summaries(logits, labels):
    """All that a loss needs to know of the logits, with its gradient.

    The gradient is written out: a framework's own goes over [B, T, V] once
    for each of the four, and by way of a scatter for the label's logit.

    Args:
        logits: float32 [B, T, V].
        labels: int32 [B, T].

    Returns:
        float32 [B, T, 4], as `losses_of_summaries` takes it. The highest
        logit gets no gradient.
    """

    @own_gradient
    def summaries(logits):
        maxima = ops.max(logits, axis=-1, keepdims=True)
        exponentials = ops.exp(logits - maxima)
        totals = ops.sum(exponentials, axis=-1, keepdims=True)
        label_logits = ops.take_along_axis(logits, labels[..., None], axis=-1)
        sums = ops.sum(logits, axis=-1, keepdims=True)
        outputs = [ops.log(totals) + maxima, label_logits, sums, maxima]

        def gradient(upstream):
            of_normaliser, of_label, of_sum, _ = ops.split(upstream, 4, axis=-1)
            spread = exponentials * (of_normaliser / totals) + of_sum
            return _add_at(spread, labels, of_label)

        return ops.concatenate(outputs, axis=-1), gradient

    return summaries(logits)


def _add_at(values, labels, amounts):
    """Adds [B, T, 1] amounts to [B, T, V] values, at each label."""
    shape = ops.shape(values)
    rows = ops.reshape(values, (-1, shape[-1]))
    columns = ops.reshape(labels, (-1,))
    places = ops.stack([ops.arange(ops.shape(columns)[0]), columns], axis=1)
    rows = ops.scatter_update(
        rows, places, ops.reshape(amounts, (-1,)), reduction="add"
    )
    return ops.reshape(rows, shape)
