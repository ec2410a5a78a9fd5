"""Gradients written by hand, and the scope in which layers use them."""

import contextlib
import contextvars

from keras import ops


def own_gradient(function):
    """Returns a function whose gradient is the one that it returns.

    Why: Keras' `custom_gradient` hands a gradient function other arguments
    with PyTorch than with TensorFlow and JAX. Without it: the function's
    value alone, whose gradient the framework derives.

    Args:
        function: of tensors, that returns a tensor and a function of the
            gradient by that tensor, which returns those by the inputs: one,
            or a tuple.
    """

    @ops.custom_gradient
    def wrapped(*tensors):
        value, gradient = function(*tensors)

        def of_upstream(*arguments, upstream=None):
            return gradient(arguments[0] if upstream is None else upstream)

        return value, of_upstream

    return wrapped


_uncompiled = contextvars.ContextVar("uncompiled", default=False)


@contextlib.contextmanager
def uncompiled():
    """In this scope layers use the code paths that are fastest without XLA.

    Results are the same but for rounding, and dropout's are as random.

    Why: gradients written by hand take fewer operations than derived ones.
    Gain: 6 to 8 % of TensorFlow's training step on a CPU, dropout's 2 % not
    counted. XLA, which fuses operations, is faster with gradients that it
    derives, so JAX and --jit do without. Without it: drop the `with` in
    trainers/training/training_model.py; every layer then calls Keras' own.

    Example:
        >>> with uncompiled(), tf.GradientTape() as tape:
        ...     logits = model(inputs, training=True)
    """
    token = _uncompiled.set(True)
    try:
        yield
    finally:
        _uncompiled.reset(token)


def is_uncompiled():
    """Returns whether this is the scope of `uncompiled`."""
    return _uncompiled.get()
