"""The one place that counts updates over all runs of a training."""

import keras


class StepCounter(keras.callbacks.Callback):
    """Knows how many updates were made; stands first among the callbacks.

    Args:
        first: updates made before this run.
        last: updates to be made in all; fit is stopped there.

    Attributes:
        first: as given.
        last: as given.
        step: updates made so far.
    """

    def __init__(self, first, last):
        super().__init__()
        self.first = self.step = first
        self.last = last

    @property
    def finished(self):
        """Whether all updates are made."""
        return self.step >= self.last

    def on_train_batch_end(self, batch, logs=None):
        """Counts an update."""
        self.step += 1
        if self.finished:
            self.model.stop_training = True

    def is_multiple_of(self, count):
        """Whether the step just made is one of every `count`."""
        return bool(count) and self.step % count == 0
