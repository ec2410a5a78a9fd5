"""The scope of a framework that runs one operation after the other."""

import contextlib
import contextvars

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
