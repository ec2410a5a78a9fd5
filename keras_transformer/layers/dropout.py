"""Dropout (Srivastava et al. 2014): section 5.4."""

import keras
from keras import ops

from keras_transformer.uncompiled import is_uncompiled

_CASES = 1 << 16


@keras.saving.register_keras_serializable("keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras' dropout.

    In the scope of `uncompiled` it draws half as many random bits.

    Example:
        >>> Dropout(0.1)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def call(self, inputs, training=False):
        """Returns what is kept, scaled up: float, shape as `inputs`."""
        whole = training and self.rate > 0 and self.noise_shape is None
        if whole and is_uncompiled():
            return dropout(inputs, self.rate, self.seed_generator)
        return super().call(inputs, training=training)


def dropout(inputs, rate, seed):
    """Returns the inputs, each set to 0 with a probability, else scaled up.

    Of 16 random bits each, and not 32 as a random float takes: drawing them
    is most of dropout's time on a CPU.

    Args:
        inputs: float, of any shape.
        rate: the probability, to within 2 ** -17; at most 1 - 2 ** -16.
        seed: keras.random.SeedGenerator, or an integer.

    Returns:
        float, shape and dtype as `inputs`; their mean is that of the inputs.
    """
    dropped = min(round(rate * _CASES), _CASES - 1)
    size = ops.size(inputs)
    half = (size + 1) // 2
    pairs = keras.random.randint((half, 1), -(2**31), 2**31 - 1, seed=seed)
    numbers = ops.reshape(ops.view(pairs, "int16"), (-1,))[:size]
    kept = ops.reshape(numbers, ops.shape(inputs)) >= dropped - _CASES // 2
    return ops.where(kept, inputs * (_CASES / (_CASES - dropped)), 0.0)
