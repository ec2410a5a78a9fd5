"""Keras callbacks: count updates, report, evaluate on dev, save and stop."""

import math
import pathlib
import statistics
import time
import typing
from collections.abc import Callable, Mapping

import keras

from export.common.progress_bar import ThreadlessBar, format_duration
from keras_transformer.types import Tensor
from trainers.pictures.event_writer import EventWriter
from trainers.training.checkpoints import divergence_error
from trainers.training.dev_scores import (
    SCORE_TITLES,
    SENTENCES,
    DevBleu,
    DevF1,
    has_plateaued,
    score_name,
)
from trainers.training.time_budget import UNPLANNED


class TokenMeans:
    """Loss, perplexity and accuracy, averaged over target tokens.

    Tensors are read only when a mean is read, so that `add` does not wait for
    the step.
    """

    def __init__(self):
        self._pending = []
        self._tokens = 0.0
        self._sums = {"loss": 0.0, "perplexity": 0.0, "accuracy": 0.0}

    def add(self, metrics: Mapping[str, Tensor]) -> None:
        """Adds the means of a batch and its number of target `tokens`."""
        self._pending.append(metrics)

    @property
    def tokens(self) -> float:
        """Number of target tokens so far."""
        self._add_pending()
        return self._tokens

    def means(self) -> dict[str, float]:
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
    """Counts updates over all runs of a training; the first callback.

    `first` is the number of updates before this run, `step` the number so far,
    `last` the total, after which fit stops, UNPLANNED if it is not known yet.
    """

    def __init__(self, first: int, last: int):
        super().__init__()
        self.first = self.step = first
        self.last = last

    @property
    def finished(self) -> bool:
        """Whether all updates are done."""
        return self.step >= self.last

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Counts an update."""
        self.step += 1
        if self.finished:
            self.model.stop_training = True

    def is_multiple_of(self, count: int) -> bool:
        """Whether the step is a multiple of `count`; False for 0."""
        return bool(count) and self.step % count == 0


class Progress(keras.callbacks.Callback):
    """Reports means over target tokens every N steps, and dev evaluations.

    It writes lines, and a progress bar on a terminal, to `stream`, and the same
    values to TensorBoard. `end_time` is the `time.monotonic()` at which
    training should end, or None.
    """

    def __init__(
        self,
        counter: StepCounter,
        log_dir: pathlib.Path,
        every_steps: int,
        end_time: float | None,
        stream: typing.TextIO,
    ):
        super().__init__()
        self._counter = counter
        self._every_steps = every_steps
        self._end_time = end_time
        self._stream = stream
        self._writers = {
            run: EventWriter(log_dir, run, counter.first)
            for run in ("train", "dev")
        }

    def on_train_begin(self, logs: typing.Any = None) -> None:
        """Starts the clock and the progress bar."""
        self._started, self._first = time.monotonic(), self._counter.step
        self._reset_means()
        self._bar = ThreadlessBar(
            total=self._last,
            initial=self._first,
            unit="step",
            file=self._stream,
            disable=not self._stream.isatty(),
            leave=False,
        )

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Reports when due."""
        self._bar.update()
        self._means.add(logs)
        # After steps 1 and 10 too: compilation makes the first steps slow.
        early = self._counter.step - self._counter.first in (1, 10)
        if early or self._counter.is_multiple_of(self._every_steps):
            self._report(float(logs["learning_rate"]))
        self._batch_ended = time.monotonic()

    def report_dev(self, evaluation: Mapping[str, float]) -> None:
        """Reports an evaluation on the dev split, just after a batch."""
        # Its time is not that of the training's tokens.
        self._means_started += time.monotonic() - self._batch_ended
        text = format_metrics(evaluation)
        self._print(f"step {self._counter.step:,}: dev {text}")
        metrics = {
            name: value
            for name, value in evaluation.items()
            if name not in ("step", SENTENCES)
        }
        self._writers["dev"].write(self._counter.step, metrics)

    def on_train_end(self, logs: typing.Any = None) -> None:
        """Removes the progress bar."""
        self._bar.close()

    @property
    def _last(self):
        """The number of all updates; None if it is not known yet."""
        return self._counter.last if self._counter.last < UNPLANNED else None

    def _reset_means(self):
        self._means_started = self._batch_ended = time.monotonic()
        self._means = TokenMeans()

    def _report(self, learning_rate):
        seconds = max(time.monotonic() - self._means_started, 1e-9)
        metrics = {
            **self._means.means(),
            "tokens_per_second": self._means.tokens / seconds,
            "learning_rate": learning_rate,
        }
        self._reset_means()
        total = f"/{self._last:,}" if self._last else ""
        self._print(
            f"step {self._counter.step:,}{total}: "
            f"{format_metrics(metrics)}, learning rate {learning_rate:.2e}, "
            f"{metrics['tokens_per_second']:,.0f} tokens/s, "
            f"{format_duration(self._seconds_left())} left"
        )
        self._writers["train"].write(self._counter.step, metrics)

    def _seconds_left(self):
        now, counter = time.monotonic(), self._counter
        done = counter.step - self._first
        left = (counter.last - counter.step) * (now - self._started) / done
        if self._end_time is not None:
            left = min(left, self._end_time - now)
        return max(left, 0.0)

    def _print(self, line):
        ThreadlessBar.write(line, file=self._stream)
        self._stream.flush()


class PrintTranslations(keras.callbacks.Callback):
    """Prints translations of some sources every N minutes.

    `translate` is a function of a list of sources that returns their texts.
    """

    def __init__(
        self,
        translate: Callable[[list[str]], list[str]],
        sources: list[str],
        every_minutes: float,
        stream: typing.TextIO,
    ):
        super().__init__()
        self._translate = translate
        self._sources = sources
        self._every_seconds = 60 * every_minutes
        self._stream = stream

    def on_train_begin(self, logs: typing.Any = None) -> None:
        """Starts the clock."""
        self._printed_time = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Translates when due."""
        if time.monotonic() < self._printed_time + self._every_seconds:
            return
        with self.model.averaged_weights():
            texts = self._translate(self._sources)
        self._printed_time = time.monotonic()
        for source, text in zip(self._sources, texts):
            ThreadlessBar.write(f"  {source}\n    -> {text}", file=self._stream)
        self._stream.flush()


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Formats loss, perplexity, accuracy and score."""
    text = (
        f"loss {metrics['loss']:.3f}, perplexity {metrics['perplexity']:.2f}, "
        f"accuracy {metrics['accuracy']:.1%}"
    )
    name = score_name(metrics)
    if name:
        text += f", {SCORE_TITLES[name]} {metrics[name]:.2f}"
        parts = [
            f"{each.removeprefix(f'{name}/')} {metrics[each]:.2f}"
            for each in metrics
            if each.startswith(f"{name}/")
        ]
        if parts:
            text += f" ({', '.join(parts)})"
    return text


class EvaluateDev(keras.callbacks.Callback):
    """Evaluates on dev every N updates and after the last.

    With a moving average of the weights, evaluates the average. An evaluation
    is a dict of step, loss, perplexity, accuracy, the scores of `scores`, from
    `make_dev_scores`, their mean, and their number of sentences; it is appended
    to `history` and passed to the function `report`. Stops fit when `patience`
    evaluations, if not 0, brought no improvement. An evaluation takes
    `num_batches` batches of `data`.
    """

    def __init__(
        self,
        counter: StepCounter,
        data: typing.Any,
        num_batches: int,
        every_steps: int,
        patience: int,
        history: list[dict[str, float]],
        report: Callable[[dict[str, float]], None],
        scores: Mapping[str, DevBleu | DevF1] | tuple[()] = (),
    ):
        super().__init__()
        self.history = history
        self._counter = counter
        self._data = data
        self._num_batches = num_batches
        self._every_steps = every_steps
        self._patience = patience
        self._report = report
        self._scores = dict(scores)

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Evaluates when due, and stops fit on a plateau."""
        counter = self._counter
        if counter.finished or counter.is_multiple_of(self._every_steps):
            with self.model.averaged_weights():
                evaluation = self.evaluate(counter.step)
            self.history.append(evaluation)
            self._report(evaluation)
            if has_plateaued(self.history, self._patience):
                self.model.stop_training = True

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluates the weights; InputError if the loss is not finite."""
        metrics = self.model.evaluate(self._data, self._num_batches)
        if not math.isfinite(metrics["loss"]):
            raise divergence_error(f"The dev loss after step {step:,}")
        evaluation = {"step": step, **metrics}
        scores = {name: score() for name, score in self._scores.items()}
        if scores:
            name = next(iter(scores)).partition("/")[0]
            evaluation[name] = statistics.fmean(scores.values())
            evaluation[SENTENCES] = sum(
                score.num_sentences for score in self._scores.values()
            )
        return evaluation | scores


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint every N steps or minutes, and stops fit.

    Fit stops when a worker receives a signal (`interrupted` is then True) or at
    its `stop_time`, a `time.monotonic()` (then `time_is_up`). Each training
    step sums the stop flags of all workers, so all stop after the same step.
    The sums are read one step later, so that no step waits for them.

    `save` is a function of a prefix, see `Checkpoints.save`: "stop" for a step
    saved only due to a signal. Raises InputError if a loss is not finite.
    """

    def __init__(
        self,
        counter: StepCounter,
        save: Callable[[str], None],
        every_steps: int,
        every_minutes: float,
        stop_time: float | None,
    ):
        super().__init__()
        self.interrupted = self.time_is_up = False
        self._counter = counter
        self._save = save
        self._every_steps = every_steps
        self._every_seconds = 60 * every_minutes
        self._stop_time = stop_time
        self._saved_time = time.monotonic()
        self._previous_logs = {"loss": 0.0, "signal": 0.0, "time_up": 0.0}

    def remove_time_limit(self) -> None:
        """Lets the next fit last as long as it takes."""
        self._stop_time, self.time_is_up = None, False
        self._previous_logs = {**self._previous_logs, "time_up": 0.0}
        self.model.time_stop_flag = 0.0

    def stop(self) -> None:
        """Makes fit save and stop; signal handlers may call it."""
        self.model.signal_stop_flag = 1.0

    def on_train_batch_begin(self, batch: int, logs: typing.Any = None) -> None:
        """Sets the stop flag when the time is up."""
        if self._stop_time is not None and time.monotonic() >= self._stop_time:
            self.model.time_stop_flag = 1.0

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Saves and stops when due."""
        previous, self._previous_logs = self._previous_logs, logs
        if not math.isfinite(float(previous["loss"])):
            step = self._counter.step - 1
            raise divergence_error(f"The loss of step {step:,}")
        self.interrupted = float(previous["signal"]) > 0.0
        self.time_is_up = float(previous["time_up"]) > 0.0
        # Saving fails if weights are not finite.
        if self._is_due() or self.time_is_up or self.model.stop_training:
            self._saved_time = time.monotonic()
            self._save("step")
        elif self.interrupted:
            self._save("stop")
        if self.interrupted or self.time_is_up:
            self.model.stop_training = True

    def _is_due(self):
        elapsed = time.monotonic() - self._saved_time
        by_time = self._every_seconds and elapsed >= self._every_seconds
        return by_time or self._counter.is_multiple_of(self._every_steps)
