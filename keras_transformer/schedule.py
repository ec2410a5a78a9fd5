"""Learning-rate schedules: section 5.3 and a linear cooldown."""

import typing

import keras
from keras import ops

from keras_transformer.config import (
    SMALLEST_FLOAT,
    TransformerConfig,
    validate_range,
)
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Formula 3; `scale` is 1 in the paper. Step 0 has the rate of step 1.
    """

    def __init__(
        self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0
    ):
        super().__init__()
        self.d_model = validate_range("d_model", d_model, 1)
        self.warmup_steps = validate_range("warmup_steps", warmup_steps, 1)
        self.scale = validate_range("scale", scale, SMALLEST_FLOAT)

    def __call__(self, step: int | Tensor) -> Tensor:
        """Returns the learning rate of a step, a float32 scalar."""
        step = ops.maximum(ops.cast(step, "float32"), 1.0)
        rising = step * self.warmup_steps**-1.5
        falling = ops.rsqrt(step)
        return self.scale * self.d_model**-0.5 * ops.minimum(rising, falling)

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the constructor's arguments."""
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }


class _ScheduleWrapper(keras.optimizers.schedules.LearningRateSchedule):
    """Base of schedules that change the rates of another."""

    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"schedule": keras.optimizers.schedules.serialize(self.schedule)}

    @classmethod
    def from_config(cls, config):
        """Creates the schedule from the output of `get_config`."""
        inner = keras.optimizers.schedules.deserialize(config["schedule"])
        return cls(**{**config, "schedule": inner})


@keras.saving.register_keras_serializable("keras_transformer")
class Cooldown(_ScheduleWrapper):
    """Decays the rate of another schedule linearly to 0 at the end.

    Step `train_steps`, counted from 1, has 1 / (cooldown_steps + 1) of the
    schedule's rate. The paper averages checkpoints instead (section 6.1);
    Hägele et al. 2024, arXiv 2405.18392, compare the two.
    """

    def __init__(
        self,
        schedule: keras.optimizers.schedules.LearningRateSchedule,
        train_steps: int,
        cooldown_steps: int,
    ):
        super().__init__(schedule)
        self.train_steps = validate_range("train_steps", train_steps, 0)
        self.cooldown_steps = validate_range(
            "cooldown_steps", cooldown_steps, 0, train_steps
        )

    def __call__(self, step: int | Tensor) -> Tensor:
        """Returns the learning rate of a step, a float32 scalar."""
        remaining = self.train_steps + 1.0 - ops.cast(step, "float32")
        factor = ops.maximum(remaining / (self.cooldown_steps + 1.0), 0.0)
        # Not by rounding: compilers divide by a constant as they like.
        factor = ops.where(remaining > self.cooldown_steps, 1.0, factor)
        return factor * self.schedule(step)

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "train_steps": self.train_steps,
            "cooldown_steps": self.cooldown_steps,
        }


@keras.saving.register_keras_serializable("keras_transformer")
class UpdateSchedule(_ScheduleWrapper):
    """Shifts a schedule by one step, since Keras counts updates from 0."""

    def __call__(self, step: int | Tensor) -> Tensor:
        """Returns the rate after `step` updates, a float32 scalar."""
        return self.schedule(step + 1)


def update_schedule(config: TransformerConfig) -> UpdateSchedule:
    """Returns the UpdateSchedule for a TransformerConfig."""
    schedule = TransformerSchedule(
        config.d_model, config.warmup_steps, config.learning_rate_scale
    )
    if config.cooldown_steps:
        schedule = Cooldown(schedule, config.train_steps, config.cooldown_steps)
    return UpdateSchedule(schedule)
