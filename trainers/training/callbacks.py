"""What happens between two updates: counting, measuring, saving, stopping."""

import math
import time

import keras

from trainers.training.checkpoints import divergence_error
from trainers.training.dev_scores import has_plateaued


class TokenMeans:
    """Loss, perplexity and accuracy, every target token weighing alike.

    What is added is kept as it is until it is asked for, so that a step need
    not be waited for.

    Perplexity is exp of the mean negative log-probability without label
    smoothing; with smoothing it would not be a perplexity.
    """

    def __init__(self):
        self._waiting = []
        self._tokens = 0.0
        self._sums = {"loss": 0.0, "perplexity": 0.0, "accuracy": 0.0}

    def add(self, figures):
        """Adds a batch: its means, and `tokens`, how many they are over."""
        self._waiting.append(figures)

    @property
    def tokens(self):
        """Number of target tokens so far, float."""
        self._take()
        return self._tokens

    def figures(self):
        """Returns a dict of the three means; of no token 0, 1 and 0."""
        self._take()
        tokens = max(self._tokens, 1.0)
        means = {name: total / tokens for name, total in self._sums.items()}
        return {**means, "perplexity": math.exp(means["perplexity"])}

    def _take(self):
        for figures in self._waiting:
            tokens = float(figures["tokens"])
            self._tokens += tokens
            for name in self._sums:
                value = float(figures[name])
                if name == "perplexity":
                    value = math.log(value)
                self._sums[name] += tokens * value
        self._waiting = []


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


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint every N steps or minutes, and stops fit.

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
        self.model.signal_stop_flag = 1.0

    def on_train_batch_begin(self, batch, logs=None):
        """Votes for a stop after this step when the time is up."""
        if self._stop_time is not None and time.monotonic() >= self._stop_time:
            self.model.time_stop_flag = 1.0

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
            raise divergence_error(f"The loss of step {self._counter.step:,}")


class EvaluateDev(keras.callbacks.Callback):
    """Evaluates every N updates, and after the last.

    Where the weights have a moving average, that is what is evaluated.

    Args:
        counter: StepCounter.
        data: what `model.evaluate` takes.
        batches: how many of its batches hold the whole split.
        every: updates between measures.
        patience: so many measures without a better one end the training; 0
            for never.
        history: measures so far, list of dict; added to.
        report: function of a measure: a dict of step, loss, perplexity,
            accuracy and, where it is measured, a score by its name.
        score: DevScore, or None.

    Attributes:
        history: the measures, the latest last.
    """

    def __init__(
        self,
        counter,
        data,
        batches,
        every,
        patience,
        history,
        report,
        score=None,
    ):
        super().__init__()
        self.history = history
        self._counter = counter
        self._data = data
        self._batches = batches
        self._every = every
        self._patience = patience
        self._report = report
        self._score = score

    def on_train_batch_end(self, batch, logs=None):
        """Measures, and stops fit on a plateau, when it is time."""
        if self._counter.finished or self._counter.is_multiple_of(self._every):
            self._measure()
            if has_plateaued(self.history, self._patience):
                self.model.stop_training = True

    def measure(self, step):
        """Returns the measure of the model's weights, a dict.

        Args:
            step: that the weights are of.

        Raises:
            InputError: the loss is infinite or no number.
        """
        figures = self.model.evaluate(
            self._data, steps=self._batches, return_dict=True, verbose=0
        )
        if not math.isfinite(figures["loss"]):
            raise divergence_error(f"The dev loss after step {step:,}")
        measure = {"step": step, **figures}
        if self._score is not None:
            measure[self._score.name] = self._score()
        return measure

    def _measure(self):
        with self.model.averaged_weights():
            measure = self.measure(self._counter.step)
        self.history.append(measure)
        self._report(measure)
