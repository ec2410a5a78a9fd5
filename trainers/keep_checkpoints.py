"""Saves while fit runs, and ends it when it is time."""

import math
import time

import keras

from export.errors import InputError


class KeepCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint every so many steps or minutes, and stops fit.

    Args:
        checkpoints: Checkpoints.
        first_step: updates made before this run.
        last_step: updates to be made in all; fit is stopped there.
        every_steps: steps between checkpoints; 0 for none by steps.
        every_minutes: minutes between checkpoints; 0 for none by minutes.
        stop_time: `time.monotonic()` at which fit is stopped, or None.

    Raises:
        InputError: the loss became infinite or no number; it is not saved.
    """

    def __init__(
        self,
        checkpoints,
        first_step,
        last_step,
        every_steps,
        every_minutes,
        stop_time,
    ):
        super().__init__()
        self.step = first_step
        self._checkpoints = checkpoints
        self._last_step = last_step
        self._every_steps = every_steps
        self._every_seconds = 60 * every_minutes
        self._stop_time = stop_time
        self._saved_step = first_step
        self._saved_time = time.monotonic()
        self._stop_asked = False

    def stop(self):
        """Asks fit to save and stop after the current step."""
        self._stop_asked = True

    def on_train_batch_end(self, batch, logs=None):
        """Counts a step; saves and stops when it is time."""
        self.step += 1
        self._refuse_diverged(logs or {})
        now = time.monotonic()
        by_steps = self._every_steps and self.step % self._every_steps == 0
        by_time = (
            self._every_seconds
            and now - self._saved_time >= self._every_seconds
        )
        out_of_time = self._stop_time is not None and now >= self._stop_time
        if self.step >= self._last_step or out_of_time or self._stop_asked:
            self.model.stop_training = True
        if by_steps or by_time or self.model.stop_training:
            self.save()

    def _refuse_diverged(self, logs):
        if not math.isfinite(float(logs.get("loss", 0.0))):
            raise InputError(
                f"The loss of step {self.step:,} is not a number: training "
                "diverged. The earlier checkpoints are kept; begin anew with "
                "a lower learning_rate_scale or more warmup_steps, in another "
                "--model_dir."
            )

    def save(self):
        """Saves now, unless nothing happened since the last time."""
        if self.step != self._saved_step:
            self._checkpoints.save(self.model, self.step)
            self._saved_step = self.step
            self._saved_time = time.monotonic()
