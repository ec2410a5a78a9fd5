"""How much two distributions differ: the penalty of R-Drop."""

from keras import ops

from keras_transformer.own_gradient import own_gradient


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
    @own_gradient
    def divergence(first, second):
        p, q, ratios, of_p, of_q = _compared(first, second)

        def gradient(upstream):
            half = 0.5 * upstream[..., None]
            return (
                half * (p * (ratios - of_p) + p - q),
                half * (q * (of_q - ratios) + q - p),
            )

        return 0.5 * (of_p - of_q)[..., 0], gradient

    return divergence(ops.cast(first, "float32"), ops.cast(second, "float32"))


def _compared(first, second):
    """Returns p, q, log(p / q), and its means under p and under q."""
    first, second = ops.log_softmax(first), ops.log_softmax(second)
    p, q, ratios = ops.exp(first), ops.exp(second), first - second
    means = [ops.sum(each * ratios, axis=-1, keepdims=True) for each in (p, q)]
    return p, q, ratios, *means
