"""Keras counts updates from 0, the paper from 1."""

import keras


class UpdateSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Gives update n, from 1, the rate of step n.

    Keras asks for the rate of the first update with step 0.

    Args:
        schedule: TransformerSchedule.
    """

    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule

    def __call__(self, step):
        """Returns the rate after `step` updates, float32 scalar."""
        return self.schedule(step + 1)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"schedule": keras.optimizers.schedules.serialize(self.schedule)}

    @classmethod
    def from_config(cls, config):
        """Makes the schedule from what `get_config` returned."""
        inner = keras.optimizers.schedules.deserialize(config["schedule"])
        return cls(inner)
