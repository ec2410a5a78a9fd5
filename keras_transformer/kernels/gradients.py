"""Functions that bring their own gradient, and where layers use them."""

import contextlib
import contextvars

from keras import ops


def own_gradient(function):
    """Returns a function whose gradient is the one that it says.

    Keras' `custom_gradient` hands a gradient function other arguments with
    PyTorch than with TensorFlow and JAX.

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
    """Layers called in this scope go the ways that are soonest without XLA.

    Results are the same but for rounding, and dropout's are as random.
    Layers bring gradients that are written out, which take fewer operations
    than those that a framework derives: a training step of TensorFlow takes
    a tenth less on a CPU. XLA, which fuses operations, does better with what
    it derives itself, so JAX needs none of this.

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
