"""Label-smoothed cross-entropy (section 5.4) and the loss of R-Drop.

`LabelSmoothedCrossEntropy` takes logits, like any Keras loss.
`linear_cross_entropy` takes states and the pre-softmax matrix and avoids the
logits' gradient (1.2 to 1.5 % of a training step).
"""

import typing

import keras
from keras import ops, tree

from keras_transformer.config import BELOW_ONE, PAD_ID, validate_range
from keras_transformer.ids import as_ids, bound_ids, nan_unless
from keras_transformer.kernels import (
    USE_FAST_KERNELS,
    at_least_float32,
    custom_gradient,
)
from keras_transformer.types import Tensor, TensorLike

# Tokens whose logits XLA computes at a time: enough to fill a GPU.
_CHUNK_TOKENS = 4096
# Lower logits exclude ids from the softmax, as in pretrained models.
MIN_POSSIBLE_LOGIT = -1e8
# Smoothing adds up all logits: with an excluded one float32 has no other
# digits. Then it counts as this.
_MIN_BIAS = -100.0


class TokenLosses(typing.NamedTuple):
    """Losses of each target token, float32 [B, T]; 0 where ignored."""

    smoothed: Tensor  # the training loss
    plain: Tensor  # negative log-probability of the label, for perplexity
    correct: Tensor  # 1 where no logit is higher than the label's


@keras.saving.register_keras_serializable("keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy with 1 - e on the label and e / (V - 1) on other tokens.

    `smoothing` is e, epsilon_ls, in [0, 1). Padding and negative labels, such
    as -100 in Hugging Face, are ignored. A label outside the vocabulary raises
    an error if it is known, else the loss is NaN. Logits below -1e8, which
    exclude ids, count as -100. `reduction`, by default the mean over target
    tokens, and `dtype`, at least float32, are those of `keras.losses.Loss`.
    """

    def __init__(
        self,
        smoothing: float = 0.1,
        reduction: str | None = "mean_with_sample_weight",
        name: str = "label_smoothed_cross_entropy",
        dtype: typing.Any = None,
    ):
        policy = keras.dtype_policies.get(dtype or keras.config.floatx())
        # Keras casts labels too, and 16 bits have few integers.
        dtype = keras.backend.result_type(policy.compute_dtype, "float32")
        super().__init__(name, reduction, dtype)
        self.smoothing = validate_range("smoothing", smoothing, 0.0, BELOW_ONE)

    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> Tensor:
        """Returns the mean loss per target token, a scalar.

        Labels are int32 [B, T], logits float [B, T, V], weights float [B], for
        sentences, or broadcastable to [B, T].
        """
        y_true = ops.convert_to_tensor(y_true)
        weights = ops.cast(y_true > PAD_ID, self.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight, self.dtype)
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        return super().__call__(y_true, y_pred, weights)

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> Tensor:
        """Returns each token's loss, float32 [B, T]; 0 where ignored."""
        return self.token_losses(y_true, y_pred).smoothed

    def token_losses(
        self, y_true: TensorLike, y_pred: TensorLike
    ) -> TokenLosses:
        """Returns the TokenLosses of labels and logits."""
        logits = at_least_float32(ops.convert_to_tensor(y_pred))
        size = logits.shape[-1]
        labels, weights = _bound_labels(y_true, size)

        # A derived gradient passes over [B, T, V] once per statistic, and
        # scatters the gradient of the label's logit.
        @custom_gradient
        def statistics(logits):
            # A `where` takes twice as long as the softmax.
            summed = ops.cond(
                ops.min(logits, initial=0.0) > MIN_POSSIBLE_LOGIT,
                lambda: logits,
                lambda: ops.where(
                    logits > MIN_POSSIBLE_LOGIT, logits, _MIN_BIAS
                ),
            )
            sums = ops.sum(summed, axis=-1, keepdims=True)
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

        return _token_losses(statistics(logits), weights, size, self.smoothing)

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "smoothing": self.smoothing}


def linear_cross_entropy(
    states: Tensor,
    embeddings: Tensor,
    labels: TensorLike,
    smoothing: float,
    bias: Tensor | None = None,
    label_embeddings: Tensor | None = None,
) -> TokenLosses:
    """Returns TokenLosses summed over tokens, from states @ embeddings^T.

    Takes states, float [B, T, D]; embeddings, float32 [V, D]; labels, int32
    [B, T], 0 or negative where ignored; and a bias of the logits, float32 [V].
    Biases below -100, which exclude ids, count as -100.
    With `label_embeddings`, the embeddings at the labels, float32 [B, T, D],
    the gradient of the label's logit flows to these, sparse if they were looked
    up. Only `smoothed` has a gradient.

    Gradients are computed with the losses, so that nothing of the logits' size
    is kept for the backward pass; on JAX, some `_CHUNK_TOKENS` at a time. The
    gradient of the logits is never materialized: the softmax is multiplied by
    the matrix and by the states, and the products are scaled. With XLA and
    bfloat16 states the products are bfloat16.
    """
    labels, weights = _bound_labels(labels, embeddings.shape[0])
    if label_embeddings is None:
        label_embeddings = ops.take(embeddings, labels, axis=0)
    if bias is not None:
        bias = ops.maximum(bias, _MIN_BIAS)
        # One more column of the matrix, for a state of 1.
        states = ops.cast(states, "float32")
        ones = ops.ones_like(states[..., :1])
        states = ops.concatenate([states, ones], axis=-1)
        embeddings = ops.concatenate([embeddings, bias[:, None]], axis=-1)
        label_bias = ops.take(bias, labels, axis=0)[..., None]
        label_embeddings = ops.concatenate([label_embeddings, label_bias], -1)
    product_dtype = keras.backend.standardize_dtype(states.dtype)
    if USE_FAST_KERNELS or product_dtype != "bfloat16":
        product_dtype = "float32"

    @custom_gradient
    def sums(states, matrix, label_embeddings):
        def add_chunk(total, chunk):
            values, d_states, d_matrix, d_label_embeddings = _sums_of_chunk(
                *chunk, matrix, smoothing, product_dtype
            )
            total = total[0] + values, total[1] + d_matrix
            return total, (d_states, d_label_embeddings)

        chunks = states, label_embeddings, labels, weights
        if USE_FAST_KERNELS:
            values, *gradients = _sums_of_chunk(
                *chunks, matrix, smoothing, product_dtype
            )
        else:
            count = _count_chunks(labels)
            zeros = ops.zeros((3,), "float32"), ops.zeros_like(matrix)
            chunks = tree.map_structure(
                lambda each: _divide_time(each, count), chunks
            )
            (values, d_matrix), by_token = ops.scan(add_chunk, zeros, chunks)
            d_states, d_label_embeddings = (
                _join_time(each, ops.shape(labels)[1]) for each in by_token
            )
            gradients = d_states, d_matrix, d_label_embeddings

        def gradient(upstream):
            return tuple(upstream[0] * each for each in gradients)

        return values, gradient

    values = sums(
        *(
            ops.cast(each, "float32")
            for each in (states, embeddings, label_embeddings)
        )
    )
    return TokenLosses(*ops.unstack(values))


def _sums_of_chunk(
    states, label_embeddings, labels, weights, matrix, smoothing, product_dtype
):
    """Returns the sums of TokenLosses, [3], and gradients of the first."""
    shape = ops.shape(states)
    size, width = matrix.shape
    rows, label_rows = (
        ops.reshape(each, (-1, width)) for each in (states, label_embeddings)
    )
    labels, weights = (ops.reshape(each, (-1,)) for each in (labels, weights))

    def multiply(left, right):
        left, right = (ops.cast(each, product_dtype) for each in (left, right))
        return ops.cast(ops.matmul(left, right), "float32")

    total = ops.sum(matrix, axis=0)
    statistics, softmax = _logit_statistics(
        ops.matmul(rows, ops.transpose(matrix)),
        labels,
        ops.matmul(rows, total[:, None]),
    )
    losses = _token_losses(statistics, weights, size, smoothing)
    weights = weights[:, None]
    share, label_share = _shares(smoothing, size)
    probabilities, target_rows = softmax(), weights * rows
    d_rows = weights * (
        multiply(probabilities, matrix)
        - label_share * label_rows
        - share * total
    )
    d_matrix = multiply(ops.transpose(probabilities), target_rows)
    d_matrix = d_matrix - share * ops.sum(target_rows, axis=0)
    return (
        ops.stack([ops.sum(each) for each in losses]),
        ops.reshape(d_rows, shape),
        d_matrix,
        ops.reshape(-label_share * target_rows, shape),
    )


def _count_chunks(labels):
    batch, length = labels.shape
    return min(-(-batch * length // _CHUNK_TOKENS), length)


def _divide_time(values, count):
    """Pads [B, T, ...] and divides it: [count, B, T / count, ...]."""
    # Not by sentence, so that each device divides its own sentences.
    batch, length, *rest = values.shape
    part = -(-length // count)
    padding = [(0, 0), (0, count * part - length), *[(0, 0)] * len(rest)]
    values = ops.reshape(ops.pad(values, padding), (batch, count, part, *rest))
    return ops.swapaxes(values, 0, 1)


def _join_time(values, length):
    """Returns the [B, T, ...] that `_divide_time` divided."""
    count, batch, part, *rest = values.shape
    values = ops.reshape(
        ops.swapaxes(values, 0, 1), (batch, count * part, *rest)
    )
    return values[:, :length]


def _bound_labels(labels, size):
    """Returns labels, and their weights: 1, 0 if ignored, NaN if too large."""
    labels = ops.maximum(as_ids(labels), PAD_ID)
    labels, is_inside = bound_ids(labels, size, "label")
    weights = ops.cast(labels != PAD_ID, "float32")
    return labels, weights * nan_unless(is_inside, 1, "float32")


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


def _token_losses(statistics, weights, vocabulary_size, smoothing):
    normalizer, label_logits, sums, maxima = ops.unstack(statistics, axis=-1)
    share, label_share = _shares(smoothing, vocabulary_size)
    smoothed = normalizer - label_share * label_logits - share * sums
    # A maximum is cheaper than an argmax over V.
    correct = label_logits >= maxima
    losses = smoothed, normalizer - label_logits, correct
    weights = ops.cast(weights, normalizer.dtype)
    return TokenLosses(
        *(ops.cast(each, weights.dtype) * weights for each in losses)
    )


def _shares(smoothing, vocabulary_size):
    """Returns the shares of the logits' sum and, added, of the label's."""
    share = smoothing / max(vocabulary_size - 1, 1)
    return share, 1.0 - smoothing - share


def symmetric_divergence(first: Tensor, second: Tensor) -> Tensor:
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
