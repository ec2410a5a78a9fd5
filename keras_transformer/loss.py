"""Label-smoothed cross-entropy: section 5.4."""

import typing

import keras
from keras import ops

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
        normaliser = ops.logsumexp(logits, axis=-1)
        label_logits = ops.squeeze(
            ops.take_along_axis(logits, labels[..., None], axis=-1), -1
        )
        others = logits.shape[-1] - 1
        share = self.smoothing / others
        smoothed = (
            normaliser
            - (1.0 - self.smoothing - share) * label_logits
            - share * ops.sum(logits, axis=-1)
        )
        real = ops.cast(ops.not_equal(labels, PAD_ID), "float32")
        # A maximum costs less than an argmax over V.
        best = label_logits >= ops.max(logits, axis=-1)
        return TokenLosses(
            smoothed=smoothed * real,
            plain=(normaliser - label_logits) * real,
            correct=ops.cast(best, "float32") * real,
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "smoothing": self.smoothing}
