"""The loss from the decoder's output, with no gradient of the logits made."""

from keras import ops

from keras_transformer.layers.linear import column_sums
from keras_transformer.loss import losses_of_summaries
from keras_transformer.own_gradient import own_gradient


def projected_losses(states, matrix, labels, smoothing, label_rows=None):
    """Returns the losses of tokens whose logits are states @ matrix^T.

    They are those of `LabelSmoothedCrossEntropy.token_losses` of the logits.
    The logits' gradient is the softmax, scaled, with a constant added to all
    of a row and another one at the label. It is as large as the logits and
    is not made: its product with the matrix, and with the states, is that of
    the softmax, scaled and added to afterwards, where all is V / D times
    smaller.

    Args:
        states: float [..., D], the decoder's output.
        matrix: float32 [V, D], the pre-softmax matrix.
        labels: int32 [...], 0 on padding.
        smoothing: e, epsilon_ls.
        label_rows: float32 [..., D], the rows of the labels. They have their
            part in the gradient: who looks them up in another tensor than
            `matrix` gets that part, which is sparse, apart. None for those
            of `matrix`.

    Returns:
        TokenLosses.
    """
    matrix = ops.cast(matrix, "float32")
    labels = ops.cast(labels, "int32")
    if label_rows is None:
        label_rows = ops.take(matrix, labels, axis=0)
    rows, label_rows = (
        ops.reshape(ops.cast(each, "float32"), (-1, matrix.shape[1]))
        for each in (states, label_rows)
    )
    summaries = _summaries(ops.reshape(labels, (-1,)))
    found = summaries(rows, matrix, label_rows)
    found = ops.reshape(found, (*ops.shape(labels), 4))
    return losses_of_summaries(found, labels, matrix.shape[0], smoothing)


def _summaries(labels):
    """Returns a function of float32 [R, D], [V, D] and [R, D].

    Args:
        labels: int32 [R].

    What that returns is float32 [R, 4], as `losses_of_summaries` takes it.
    The highest logit gets no gradient.
    """

    @own_gradient
    def summaries(rows, matrix, label_rows):
        logits = ops.matmul(rows, ops.transpose(matrix))
        # One operation, where exp(logits - normaliser) is two, and slow ones.
        softmax = ops.softmax(logits, axis=-1)
        label_logits = ops.take_along_axis(logits, labels[:, None], axis=-1)
        maxima = ops.max(logits, axis=-1, keepdims=True)
        normalisers = maxima - ops.log(ops.max(softmax, axis=-1, keepdims=True))
        of_matrix = column_sums(matrix)
        sums = ops.matmul(rows, of_matrix[:, None])
        outputs = [normalisers, label_logits, sums, maxima]

        def gradient(upstream):
            scale, at_label, everywhere, _ = ops.split(upstream, 4, axis=-1)
            by_rows = (
                scale * ops.matmul(softmax, matrix)
                + at_label * label_rows
                + everywhere * of_matrix
            )
            by_matrix = (
                ops.matmul(ops.transpose(softmax), scale * rows)
                + ops.matmul(ops.transpose(everywhere), rows)[0]
            )
            return by_rows, by_matrix, at_label * rows

        return ops.concatenate(outputs, axis=-1), gradient

    return summaries
