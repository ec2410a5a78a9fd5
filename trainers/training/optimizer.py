"""Adam (section 5.3) with TensorFlow's fused kernel."""

import keras
import tensorflow as tf
from keras import ops

from trainers.training.keras_internals import (
    SharedLearningRate,
    WarmupAverage,
    adam_moments,
)


class FusedAdam(SharedLearningRate, WarmupAverage, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with one operation per variable.

    The update is memory-bound: Keras runs a dozen operations, each of which
    reads and writes arrays of the variable's size; TensorFlow's kernel reads
    and writes each array once. Formula and variables are the same, so
    checkpoints are interchangeable.

    Raises:
        TypeError: `amsgrad` is set, which the kernel does not support.
    """

    def __init__(self, learning_rate=0.001, **kwargs):
        if kwargs.get("amsgrad"):
            raise TypeError("FusedAdam has no amsgrad; use Keras' own Adam.")
        super().__init__(learning_rate, **kwargs)

    def bias_corrected_rate(self, learning_rate):
        """Returns the rate times both of Adam's bias corrections."""
        step = ops.cast(self.iterations + 1, learning_rate.dtype)
        of_mean = 1 - tf.pow(tf.cast(self.beta_1, step.dtype), step)
        of_square = 1 - tf.pow(tf.cast(self.beta_2, step.dtype), step)
        return learning_rate * tf.sqrt(of_square) / of_mean

    def update_step(self, gradient, variable, learning_rate):
        """Updates a tf.Variable with the bias-corrected rate."""
        momentum, velocity = adam_moments(self, variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            # 0 disables the kernel's own bias correction.
            beta1_power=tf.zeros((), variable.dtype),
            beta2_power=tf.zeros((), variable.dtype),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
        )
