"""What Keras asks of every layer and model on padded sequences."""

import keras
import numpy as np
from keras import ops


class SequenceLayer(keras.layers.Layer):
    """Base of layers whose output has the shape of their first input.

    Before a layer is built its output is described by
    `compute_output_shape`, then by its own `call`. A `dtype_policy` that is
    set later reaches the sub-layers too.

    Raises:
        ValueError: an input is ragged.
    """

    def __call__(self, *args, **kwargs):
        """Calls the layer on padded tensors."""
        for each in keras.tree.flatten((args, kwargs)):
            if getattr(each, "ragged_rank", None):
                raise ValueError(
                    f"{type(self).__name__} takes no ragged tensor; give a "
                    "padded one, such as `ragged.to_tensor()`, and its mask."
                )
        return super().__call__(*args, **kwargs)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the input."""
        return tuple(input_shape)

    def compute_output_spec(self, *args, **kwargs):
        """Returns KerasTensors of the outputs."""
        if not self.built:
            return super().compute_output_spec(*args, **kwargs)
        # Only the call knows of attention weights, and checks masks.
        call = super(keras.layers.Layer, self).compute_output_spec
        return call(*args, **kwargs)

    @property
    def dtype_policy(self):
        """The policy of this layer and its sub-layers."""
        return super().dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, value):
        keras.layers.Layer.dtype_policy.fset(self, value)
        for layer in self._flatten_layers(include_self=False, recursive=False):
            layer.dtype_policy = value

    def require_width(self, shape, width=None):
        """Checks the shape that a build is given, and that of later inputs.

        Args:
            shape: of the input, [B, T, D].
            width: D that is expected; None for any that is known.

        Raises:
            ValueError: the shape is another one.
        """
        check_width(self, shape, width)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: shape[-1]})


def check_width(layer, shape, width=None):
    """Checks a shape as `SequenceLayer.require_width` does."""
    found = shape[-1] if len(shape) == 3 else None
    if found is None or found != (width or found):
        raise ValueError(
            f"{type(layer).__name__} takes inputs [batch, length, "
            f"{width or 'width'}] of known width, not {tuple(shape)}."
        )


def require_counts(layer, *names):
    """Checks that attributes are whole numbers of at least 1.

    Raises:
        ValueError: one is not.
    """
    for name in names:
        value = getattr(layer, name)
        whole = isinstance(value, (int, np.integer))
        if not whole or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"{name} of {type(layer).__name__} must be a whole number of "
                f"at least 1, not {value!r}."
            )


def as_ids(ids):
    """Returns ids as Keras' Embedding takes them: int32 or int64.

    Args:
        ids: tensor or array of any integer or float dtype, or lists.
    """
    ids = ops.convert_to_tensor(ids)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    return ids if dtype in ("int32", "int64") else ops.cast(ids, "int32")


def look_up(table, ids, name):
    """Returns the rows of a table at ids, none of which may be outside.

    Args:
        table: float [n, D].
        ids: int [...], as `as_ids` returns them.
        name: of one id, for the message.

    Returns:
        float [..., D]. In a compiled function, which cannot raise, it is that
        of the backend for an index that is too high: an error from TensorFlow
        and PyTorch on a CPU, NaN from JAX.

    Raises:
        ValueError: an id is negative or too high, and its value is known.
    """
    count = table.shape[0]
    if not check_ids(ids, count, name):
        # Keras counts negative indices from the end.
        ids = ops.where(ids < 0, count, ids)
    return ops.take(table, ids, axis=0)


def check_ids(ids, count, name):
    """Checks that ids are from 0 to `count` - 1, and returns whether it could.

    Raises:
        ValueError: an id is outside.
    """
    try:
        known = np.asarray(ids)
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        # No values while a function is traced.
        return False
    outside = known[(known < 0) | (known >= count)]
    if outside.size:
        raise ValueError(
            f"Each {name} must be from 0 to {count - 1}, not {outside[0]}."
        )
    return True
