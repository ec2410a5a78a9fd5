"""Functions that bring their own gradient, on every backend."""

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
