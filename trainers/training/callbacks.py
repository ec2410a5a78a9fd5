"""Keras callbacks: counts updates, evaluates on dev, saves and stops."""

import math
import time

import keras

from trainers.training.checkpoints import divergence_error
from trainers.training.dev_scores import has_plateaued


class TokenMeans:
    """Loss, perplexity and accuracy, averaged over target tokens.

    Perplexity is exp of the mean negative log-probability without label
    smoothing. Tensors become numbers only when a mean is read, so that `add`
    does not wait for the step.
    """

    def __init__(self):
        self._pending = []
        self._tokens = 0.0
        self._sums = {"loss": 0.0, "perplexity": 0.0, "accuracy": 0.0}

    def add(self, metrics):
        """Adds the means of a batch and its number of target `tokens`."""
        self._pending.append(metrics)

    @property
    def tokens(self):
        """Number of target tokens so far, float."""
        self._add_pending()
        return self._tokens

    def means(self):
        """Returns a dict of the three means; 0, 1 and 0 without tokens."""
        self._add_pending()
        tokens = max(self._tokens, 1.0)
        means = {name: total / tokens for name, total in self._sums.items()}
        return {**means, "perplexity": math.exp(means["perplexity"])}

    def _add_pending(self):
        for metrics in self._pending:
            tokens = float(metrics["tokens"])
            self._tokens += tokens
            for name in self._sums:
                value = float(metrics[name])
                if name == "perplexity":
                    value = math.log(value)
                self._sums[name] += tokens * value
        self._pending = []


class StepCounter(keras.callbacks.Callback):
    """Counts updates over all runs of a training.

    Must be the first callback. `first` is the number of updates before this
    run, `step` the number so far, `last` the total, after which fit stops.
    """

    def __init__(self, first, last):
        super().__init__()
        self.first = self.step = first
        self.last = last

    @property
    def finished(self):
        """Whether all updates are done."""
        return self.step >= self.last

    def on_train_batch_end(self, batch, logs=None):
        """Counts an update."""
        self.step += 1
        if self.finished:
            self.model.stop_training = True

    def is_multiple_of(self, count):
        """Whether the step is a multiple of `count`; False for 0."""
        return bool(count) and self.step % count == 0


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint every N steps or minutes, and stops fit.

    Fit stops when a worker receives a signal or its time is up. Each training
    step sums the stop flags of all workers, so all stop after the same step.

    Args:
        counter: StepCounter.
        save: function that saves a checkpoint of the current step.
        save_stop: function that does so for a step saved only due to a signal.
        every_steps: steps between checkpoints; 0 for none by steps.
        every_minutes: minutes between checkpoints; 0 for none by minutes.
        stop_time: `time.monotonic()` at which to stop fit, or None.

    Attributes:
        interrupted: whether fit was stopped by a signal.

    Raises:
        InputError: the loss is not finite; that step is not saved.
    """

    def __init__(
        self, counter, save, save_stop, every_steps, every_minutes, stop_time
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
        """Makes fit save and stop; signal handlers may call it."""
        self.model.signal_stop_flag = 1.0

    def on_train_batch_begin(self, batch, logs=None):
        """Sets the stop flag when the time is up."""
        if self._stop_time is not None and time.monotonic() >= self._stop_time:
            self.model.time_stop_flag = 1.0

    def on_train_batch_end(self, batch, logs=None):
        """Saves and stops when due."""
        logs = logs or {}
        if not math.isfinite(float(logs.get("loss", 0.0))):
            raise divergence_error(f"The loss of step {self._counter.step:,}")
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
        elapsed = time.monotonic() - self._saved_time
        by_time = self._every_seconds and elapsed >= self._every_seconds
        return by_time or self._counter.is_multiple_of(self._every_steps)


class EvaluateDev(keras.callbacks.Callback):
    """Evaluates on dev every N updates and after the last.

    With a moving average of the weights, evaluates the average.

    An evaluation is a dict of step, loss, perplexity, accuracy and, with a
    DevScore, the score under its name.

    Args:
        counter: StepCounter.
        data: argument of `model.evaluate`.
        batches: number of batches of the whole split.
        every: updates between evaluations.
        patience: evaluations without improvement before training stops; 0 for
            no limit.
        history: list of evaluations, to which new ones are appended.
        report: function called with each evaluation.
        score: DevScore, or None.
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
        """Evaluates when due, and stops fit on a plateau."""
        counter = self._counter
        if counter.finished or counter.is_multiple_of(self._every):
            with self.model.averaged_weights():
                evaluation = self.evaluate(counter.step)
            self.history.append(evaluation)
            self._report(evaluation)
            if has_plateaued(self.history, self._patience):
                self.model.stop_training = True

    def evaluate(self, step):
        """Returns the evaluation of the current weights, of `step`.

        Raises:
            InputError: the loss is not finite.
        """
        metrics = self.model.evaluate(
            self._data, steps=self._batches, return_dict=True, verbose=0
        )
        if not math.isfinite(metrics["loss"]):
            raise divergence_error(f"The dev loss after step {step:,}")
        evaluation = {"step": step, **metrics}
        if self._score is not None:
            evaluation[self._score.name] = self._score()
        return evaluation
