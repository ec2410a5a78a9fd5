"""Label-smoothed cross-entropy: section 5.4.

`LabelSmoothedCrossEntropy` takes logits, as any Keras loss does;
`projected_losses` takes what logits are made of, so that their gradient need
not be made (1.2 to 1.5 % of a training step); `symmetric_divergence` is
R-Drop's.
"""

import typing

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.kernels import (
    OWN_GRADIENTS,
    at_least_float32,
    custom_gradient,
)


class TokenLosses(typing.NamedTuple):
    """What is known of each target token, float32 [B, T]; 0 where ignored.

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
    gives the mean over the target tokens that are not ignored: padding is,
    and so is any negative label, such as the -100 of Hugging Face.

    Args:
        smoothing: e, epsilon_ls.
        name: of the loss.
        **kwargs: of `keras.losses.Loss`.

    Raises:
        ValueError: another `reduction` is asked for, or the smoothing is not
            from 0 to below 1.
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
        if not 0 <= smoothing < 1:
            raise ValueError(
                f"smoothing must be at least 0 and below 1, not {smoothing!r}."
            )
        self.smoothing = smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the mean loss per target token.

        Args:
            y_true: int32 [B, T], 0 or negative where ignored.
            y_pred: logits, float [B, T, V].
            sample_weight: float [B], a weight for each sentence, or
                broadcastable to [B, T]; None for equal weights.

        Returns:
            float32 scalar.
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
        """Returns each token's losses.

        Args:
            y_true: int32 [B, T], 0 or negative where ignored.
            y_pred: logits, float [B, T, V].

        Returns:
            TokenLosses.
        """
        logits = at_least_float32(ops.convert_to_tensor(y_pred))
        labels = _known_labels(y_true)
        add_at = _scatter_add if OWN_GRADIENTS else _add_where_equal

        # A framework's own gradient goes over [B, T, V] once for each of the
        # four, and by way of a scatter for the label's logit.
        @custom_gradient
        def summaries(logits):
            sums = ops.sum(logits, axis=-1, keepdims=True)
            found, softmax = _summaries(logits, labels, sums)

            def gradient(upstream):
                scale, at_label, everywhere, _ = ops.split(upstream, 4, -1)
                return add_at(softmax() * scale + everywhere, labels, at_label)

            return found, gradient

        return _losses(
            summaries(logits), labels, logits.shape[-1], self.smoothing
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "smoothing": self.smoothing}


def projected_losses(states, matrix, labels, smoothing, label_rows=None):
    """Returns the losses of tokens whose logits are states @ matrix^T.

    They are those of `LabelSmoothedCrossEntropy.token_losses` of the logits.
    The logits' gradient is the softmax, scaled, with a constant added to all
    of a row and another one at the label. It is as large as the logits and
    is not made: its product with the matrix, and with the states, is that of
    the softmax, scaled and added to afterwards, where all is V / D times
    smaller. Where XLA compiles, these two products take bfloat16 states as
    they are, as every other layer's gradients do; the logits never.

    Args:
        states: float [..., D], the decoder's output.
        matrix: float32 [V, D], the pre-softmax matrix.
        labels: int32 [...], 0 or negative where ignored.
        smoothing: e, epsilon_ls.
        label_rows: float32 [..., D], the rows of the labels. They have their
            part in the gradient: who looks them up in another tensor than
            `matrix` gets that part, which is sparse, apart. None for those
            of `matrix`.

    Returns:
        TokenLosses.
    """
    matrix = ops.cast(matrix, "float32")
    labels = _known_labels(labels)
    if label_rows is None:
        label_rows = ops.take(matrix, labels, axis=0)
    rows, label_rows = (
        ops.reshape(ops.cast(each, "float32"), (-1, matrix.shape[1]))
        for each in (states, label_rows)
    )
    flat = ops.reshape(labels, (-1,))
    multiply = _product_of(_gradient_dtype(states))

    @custom_gradient
    def summaries(rows, matrix, label_rows):
        of_matrix = ops.sum(matrix, axis=0)
        found, softmax = _summaries(
            ops.matmul(rows, ops.transpose(matrix)),
            flat,
            ops.matmul(rows, of_matrix[:, None]),
        )

        def gradient(upstream):
            scale, at_label, everywhere, _ = ops.split(upstream, 4, axis=-1)
            shares = softmax()
            by_rows = (
                scale * multiply(shares, matrix)
                + at_label * label_rows
                + everywhere * of_matrix
            )
            by_matrix = (
                multiply(ops.transpose(shares), scale * rows)
                + ops.matmul(ops.transpose(everywhere), rows)[0]
            )
            return by_rows, by_matrix, at_label * rows

        return found, gradient

    found = summaries(rows, matrix, label_rows)
    found = ops.reshape(found, (*ops.shape(labels), 4))
    return _losses(found, labels, matrix.shape[0], smoothing)


def _known_labels(labels):
    # An index below 0 would count from the vocabulary's end.
    return ops.maximum(ops.cast(labels, "int32"), PAD_ID)


def _gradient_dtype(states):
    dtype = keras.backend.standardize_dtype(states.dtype)
    if dtype == "bfloat16" and not OWN_GRADIENTS:
        return dtype
    return "float32"


def _product_of(dtype):
    def multiply(left, right):
        product = ops.matmul(ops.cast(left, dtype), ops.cast(right, dtype))
        return ops.cast(product, "float32")

    return multiply


def _summaries(logits, labels, sums):
    """All that a loss needs to know of the logits.

    Args:
        logits: float32 [..., V].
        labels: int32 [...].
        sums: float32 [..., 1], of each row of logits.

    Returns:
        float32 [..., 4]: the logits' log-normaliser, the label's logit, the
        sum of the logits and the highest one; and a function without
        arguments that returns the softmax, [..., V], of which gradients are
        made. The highest logit gets none.
    """
    maxima = ops.max(logits, axis=-1, keepdims=True)
    normalise = _softmax_once if OWN_GRADIENTS else _softmax_twice
    normalisers, softmax = normalise(logits, maxima)
    label_logits = ops.take_along_axis(logits, labels[..., None], axis=-1)
    found = [normalisers, label_logits, sums, maxima]
    return ops.concatenate(found, axis=-1), softmax


def _softmax_once(logits, maxima):
    # One operation, where exp(logits - normaliser) is two, and slow ones.
    softmax = ops.softmax(logits, axis=-1)
    highest = ops.max(softmax, axis=-1, keepdims=True)
    return maxima - ops.log(highest), lambda: softmax


def _softmax_twice(logits, maxima):
    # XLA makes it inside of what it is used for; to keep it, an array as
    # large as the logits would be written and read.
    sums = ops.sum(ops.exp(logits - maxima), axis=-1, keepdims=True)
    normalisers = maxima + ops.log(sums)
    return normalisers, lambda: ops.exp(logits - normalisers)


def _losses(summaries, labels, vocabulary_size, smoothing):
    """Returns the TokenLosses of `_summaries` and their labels."""
    normaliser, label_logits, sums, maxima = ops.unstack(summaries, axis=-1)
    share = smoothing / max(vocabulary_size - 1, 1)
    smoothed = (
        normaliser - (1.0 - smoothing - share) * label_logits - share * sums
    )
    real = ops.cast(ops.not_equal(labels, PAD_ID), normaliser.dtype)
    # A maximum costs less than an argmax over V.
    best = label_logits >= maxima
    return TokenLosses(
        smoothed=smoothed * real,
        plain=(normaliser - label_logits) * real,
        correct=ops.cast(best, real.dtype) * real,
    )


def _add_where_equal(values, labels, amounts):
    """Does what `_scatter_add` does, in one pass with what XLA does before."""
    ids = ops.arange(ops.shape(values)[-1], dtype="int32")
    return values + ops.where(ids == labels[..., None], amounts, 0.0)


def _scatter_add(values, labels, amounts):
    """Adds [B, T, 1] amounts to [B, T, V] values, at each label."""
    shape = ops.shape(values)
    rows = ops.reshape(values, (-1, shape[-1]))
    columns = ops.reshape(labels, (-1,))
    places = ops.stack([ops.arange(ops.shape(columns)[0]), columns], axis=1)
    rows = ops.scatter_update(
        rows, places, ops.reshape(amounts, (-1,)), reduction="add"
    )
    return ops.reshape(rows, shape)


def symmetric_divergence(first, second):
    """Returns the mean of KL(p || q) and KL(q || p) of each token.

    R-Drop (Liang et al. 2021, arXiv 2106.14448) makes two passes over a
    batch, each with a dropout of its own, and adds this of the two to their
    losses: what is left out by chance is to make no difference.

    Args:
        first: logits of p, float [..., V].
        second: logits of q, float [..., V].

    Returns:
        float32 [...], with a gradient for both.
    """

    # The gradient is written out, or every step on the way to it would be
    # kept, and each is as large as the logits.
    @custom_gradient
    def divergence(first, second):
        p, q, ratios, of_p, of_q = _compared(first, second)

        def gradient(upstream):
            half = 0.5 * upstream[..., None]
            return (
                half * (p * (ratios - of_p) + p - q),
                half * (q * (of_q - ratios) + q - p),
            )

        return 0.5 * (of_p - of_q)[..., 0], gradient

    return divergence(at_least_float32(first), at_least_float32(second))


def _compared(first, second):
    """Returns p, q, log(p / q), and its means under p and under q."""
    first, second = ops.log_softmax(first), ops.log_softmax(second)
    p, q, ratios = ops.exp(first), ops.exp(second), first - second
    means = [ops.sum(each * ratios, axis=-1, keepdims=True) for each in (p, q)]
    return p, q, ratios, *means
