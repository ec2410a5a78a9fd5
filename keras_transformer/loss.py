"""Label-smoothed cross-entropy (section 5.4) and the loss of R-Drop.

`LabelSmoothedCrossEntropy` takes logits, like any Keras loss.
`linear_cross_entropy` takes states and the pre-softmax matrix and avoids the
logits' gradient (1.2 to 1.5 % of a training step).
"""

import typing

import keras
from keras import ops

from keras_transformer.config import BELOW_ONE, PAD_ID, validate_range
from keras_transformer.kernels import (
    USE_FAST_KERNELS,
    at_least_float32,
    custom_gradient,
)


class TokenLosses(typing.NamedTuple):
    """Losses of each target token, float32 [B, T]; 0 where ignored."""

    smoothed: typing.Any  # the training loss
    plain: typing.Any  # negative log-probability of the label, for perplexity
    correct: typing.Any  # 1 where no logit is higher than the label's


@keras.saving.register_keras_serializable("keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy with 1 - e on the label and e / (V - 1) on other tokens.

    `smoothing` is e, epsilon_ls, in [0, 1). The only `reduction` is the mean
    over target tokens; padding and negative labels, such as -100 in Hugging
    Face, are ignored.
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
        self.smoothing = validate_range("smoothing", smoothing, 0.0, BELOW_ONE)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the mean loss per target token, a float32 scalar.

        Labels are int32 [B, T], logits float [B, T, V], weights float [B], for
        sentences, or broadcastable to [B, T].
        """
        losses = self.call(y_true, y_pred)
        y_true = ops.convert_to_tensor(y_true)
        weights = ops.cast(y_true > PAD_ID, losses.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight, losses.dtype)
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        total = ops.sum(weights)
        return ops.sum(losses * weights) / ops.maximum(total, 1e-9)

    def call(self, y_true, y_pred):
        """Returns each token's loss, float32 [B, T]; 0 where ignored."""
        return self.token_losses(y_true, y_pred).smoothed

    def token_losses(self, y_true, y_pred):
        """Returns the TokenLosses of labels and logits."""
        logits = at_least_float32(ops.convert_to_tensor(y_pred))
        labels = _without_negatives(y_true)
        size = logits.shape[-1]

        # A derived gradient passes over [B, T, V] once per statistic, and
        # scatters the gradient of the label's logit.
        @custom_gradient
        def statistics(logits):
            sums = ops.sum(logits, axis=-1, keepdims=True)
            values, softmax = _logit_statistics(logits, labels, sums)

            def gradient(upstream):
                d_normalizer, d_label, d_sum, _ = ops.split(upstream, 4, -1)
                is_label = ops.arange(size, dtype="int32") == labels[..., None]
                return (
                    softmax() * d_normalizer
                    + d_sum
                    + ops.where(is_label, d_label, 0.0)
                )

            return values, gradient

        return _token_losses(statistics(logits), labels, size, self.smoothing)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "smoothing": self.smoothing}


def linear_cross_entropy(
    states, embeddings, labels, smoothing, bias=None, label_embeddings=None
):
    """Returns the TokenLosses for logits states @ embeddings^T + bias.

    Takes states, float [..., D]; embeddings, float32 [V, D]; labels, int32
    [...], 0 or negative where ignored; and a bias, float32 [V]. With
    `label_embeddings`, the embeddings at the labels, float32 [..., D], the
    gradient of the label's logit flows to these, sparse if they were looked up.

    The gradient of the logits is never materialized: the softmax is multiplied
    by the matrix and by the states, and the products are scaled. With XLA and
    bfloat16 states the products are bfloat16.
    """
    labels = _without_negatives(labels)
    if label_embeddings is None:
        label_embeddings = ops.take(embeddings, labels, axis=0)
    if bias is not None:
        # One more column of the matrix, for a state of 1.
        states = ops.cast(states, "float32")
        ones = ops.ones_like(states[..., :1])
        states = ops.concatenate([states, ones], axis=-1)
        embeddings = ops.concatenate([embeddings, bias[:, None]], axis=-1)
        label_bias = ops.take(bias, labels, axis=0)[..., None]
        label_embeddings = ops.concatenate([label_embeddings, label_bias], -1)
    vocabulary_size, width = embeddings.shape
    product_dtype = keras.backend.standardize_dtype(states.dtype)
    if USE_FAST_KERNELS or product_dtype != "bfloat16":
        product_dtype = "float32"
    matrix = ops.cast(embeddings, "float32")
    rows, label_rows = (
        ops.reshape(ops.cast(each, "float32"), (-1, width))
        for each in (states, label_embeddings)
    )
    flat_labels = ops.reshape(labels, (-1,))

    def multiply(left, right):
        left, right = (ops.cast(each, product_dtype) for each in (left, right))
        return ops.cast(ops.matmul(left, right), "float32")

    @custom_gradient
    def statistics(rows, matrix, label_rows):
        total = ops.sum(matrix, axis=0)
        values, softmax = _logit_statistics(
            ops.matmul(rows, ops.transpose(matrix)),
            flat_labels,
            ops.matmul(rows, total[:, None]),
        )

        def gradient(upstream):
            d_normalizer, d_label, d_sum, _ = ops.split(upstream, 4, axis=-1)
            probabilities = softmax()
            d_rows = (
                d_normalizer * multiply(probabilities, matrix)
                + d_label * label_rows
                + d_sum * total
            )
            d_matrix = (
                multiply(ops.transpose(probabilities), d_normalizer * rows)
                + ops.matmul(ops.transpose(d_sum), rows)[0]
            )
            return d_rows, d_matrix, d_label * rows

        return values, gradient

    values = statistics(rows, matrix, label_rows)
    values = ops.reshape(values, (*ops.shape(labels), 4))
    return _token_losses(values, labels, vocabulary_size, smoothing)


def _without_negatives(labels):
    # A negative index would count from the vocabulary's end.
    return ops.maximum(ops.cast(labels, "int32"), PAD_ID)


def _logit_statistics(logits, labels, sums):
    """Returns normalizer, label's logit, sum and maximum: [..., 4].

    Also returns a function that computes the softmax.
    """
    maxima = ops.max(logits, axis=-1, keepdims=True)
    if USE_FAST_KERNELS:
        # Softmax is one operation; exp(logits - normalizer) is two slow ones.
        probabilities = ops.softmax(logits, axis=-1)
        highest = ops.max(probabilities, axis=-1, keepdims=True)
        normalizers = maxima - ops.log(highest)
    else:
        # XLA fuses the softmax into its consumers, unless it is stored.
        sums_of_exp = ops.sum(ops.exp(logits - maxima), axis=-1, keepdims=True)
        normalizers = maxima + ops.log(sums_of_exp)

    def softmax():
        if USE_FAST_KERNELS:
            return probabilities
        return ops.exp(logits - normalizers)

    label_logits = ops.take_along_axis(logits, labels[..., None], axis=-1)
    values = [normalizers, label_logits, sums, maxima]
    return ops.concatenate(values, axis=-1), softmax


def _token_losses(statistics, labels, vocabulary_size, smoothing):
    normalizer, label_logits, sums, maxima = ops.unstack(statistics, axis=-1)
    share = smoothing / max(vocabulary_size - 1, 1)
    smoothed = (
        normalizer - (1.0 - smoothing - share) * label_logits - share * sums
    )
    non_padding = ops.cast(ops.not_equal(labels, PAD_ID), normalizer.dtype)
    # A maximum is cheaper than an argmax over V.
    correct = ops.cast(label_logits >= maxima, non_padding.dtype)
    return TokenLosses(
        smoothed=smoothed * non_padding,
        plain=(normalizer - label_logits) * non_padding,
        correct=correct * non_padding,
    )


def symmetric_divergence(first, second):
    """Returns the mean of KL(p || q) and KL(q || p): float32 [...].

    R-Drop (Liang et al. 2021, arXiv 2106.14448) runs a batch twice with
    different dropout and adds this to the two losses. `first` and `second` are
    the logits, float [..., V], of p and q.
    """

    # A derived gradient would store several tensors as large as the logits.
    @custom_gradient
    def divergence(first, second):
        first, second = ops.log_softmax(first), ops.log_softmax(second)
        p, q, ratios = ops.exp(first), ops.exp(second), first - second
        mean_by_p = ops.sum(p * ratios, axis=-1, keepdims=True)
        mean_by_q = ops.sum(q * ratios, axis=-1, keepdims=True)

        def gradient(upstream):
            half = 0.5 * upstream[..., None]
            return (
                half * (p * (ratios - mean_by_p) + p - q),
                half * (q * (mean_by_q - ratios) + q - p),
            )

        return 0.5 * (mean_by_p - mean_by_q)[..., 0], gradient

    return divergence(at_least_float32(first), at_least_float32(second))
