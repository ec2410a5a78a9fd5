"""Saves while fit runs, and ends it when it is time."""

import math
import time

import keras

from export.command import InputError


class KeepCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint every so many steps or minutes, and stops fit.

    Fit stops when any worker asked for it: after a signal, or when the time
    is up. All workers hear of it after the same step.

    Args:
        counter: StepCounter.
        save: function that saves a checkpoint of the step just made.
        save_stop: the same where nothing but a signal is the reason.
        every_steps: steps between checkpoints; 0 for none by steps.
        every_minutes: minutes between checkpoints; 0 for none by minutes.
        stop_time: `time.monotonic()` at which fit is stopped, or None.

    Attributes:
        interrupted: whether fit was stopped by a signal.

    Raises:
        InputError: the loss became infinite or no number; it is not saved.
    """

    def __init__(
        self,
        counter,
        save,
        save_stop,
        every_steps,
        every_minutes,
        stop_time,
    ):
        super().__init__()
        self.interrupted = False
        self._counter = counter
        self._save = save
        self._save_stop = save_stop
        self._every_steps = every_steps
        self._every_seconds = 60 * every_minutes
        self._stop_time = stop_time
        self._saved_time = time.monotonic()

    def stop(self):
        """Asks fit to save and stop; of use from a signal's handler."""
        self.model.signal_vote = 1.0

    def on_train_batch_begin(self, batch, logs=None):
        """Votes for a stop after this step when the time is up."""
        if self._stop_time is not None and time.monotonic() >= self._stop_time:
            self.model.time_vote = 1.0

    def on_train_batch_end(self, batch, logs=None):
        """Saves and stops when it is time."""
        logs = logs or {}
        self._refuse_diverged(logs)
        self.interrupted = float(logs.get("signal", 0.0)) > 0.0
        time_is_up = float(logs.get("time_up", 0.0)) > 0.0
        if self._is_due() or time_is_up or self.model.stop_training:
            self._saved_time = time.monotonic()
            self._save()
        elif self.interrupted:
            self._save_stop()
        if self.interrupted or time_is_up:
            self.model.stop_training = True

    def _is_due(self):
        since = time.monotonic() - self._saved_time
        by_time = self._every_seconds and since >= self._every_seconds
        return by_time or self._counter.is_multiple_of(self._every_steps)

    def _refuse_diverged(self, logs):
        if not math.isfinite(float(logs.get("loss", 0.0))):
            raise InputError(
                f"The loss of step {self._counter.step:,} is not a number: "
                "training diverged. The earlier checkpoints are kept; begin "
                "anew with a lower learning_rate_scale or more warmup_steps, "
                "in another --model_dir."
            )
