"""The learning-rate schedule: section 5.3."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Formula 3. Steps count from 1; Keras asks for the rate of step 0 before
    the first update, and gets that of step 1.

    Args:
        d_model: D.
        warmup_steps: updates over which the rate rises.
        scale: factor on the formula; 1 is the paper's.
    """

    def __init__(self, d_model, warmup_steps=4000, scale=1.0):
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step):
        """Returns the learning rate of a step, float32 scalar."""
        step = ops.maximum(ops.cast(step, "float32"), 1.0)
        rising = step * self.warmup_steps**-1.5
        falling = ops.rsqrt(step)
        return self.scale * self.d_model**-0.5 * ops.minimum(rising, falling)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
