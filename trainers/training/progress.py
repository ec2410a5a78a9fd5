"""Tells how a training goes, on the terminal and to TensorBoard."""

import time

import keras
import tensorflow as tf
from tqdm import tqdm

from export.common.progress_bar import clock
from trainers.pictures.summaries import EventWriter
from trainers.training.callbacks import TokenMeans
from trainers.training.dev_scores import SCORE_TITLES, score_name


class Progress(keras.callbacks.Callback):
    """Reports every few steps, each figure weighted by target tokens.

    On a terminal a bar shows rate and time left, with a line above it per
    report; without one there are only the lines. TensorBoard gets loss,
    perplexity, accuracy, learning rate and tokens per second, and the same
    of the dev split when fit measures it.

    Args:
        counter: StepCounter.
        log_dir: TensorBoard's folder.
        every: steps between reports.
        stop_time: `time.monotonic()` at which training will stop, or None.
        stream: where to print.

    Raises:
        InputError: TensorBoard's files cannot be written.
    """

    def __init__(self, counter, log_dir, every, stop_time, stream):
        super().__init__()
        self._counter = counter
        self._every = every
        self._stop_time = stop_time
        self._stream = stream
        self._writers = {
            run: EventWriter(log_dir, run) for run in ("train", "dev")
        }
        self._window = _Window()

    def on_train_begin(self, logs=None):
        """Starts the clock."""
        self._started = time.monotonic()
        self._window = _Window()
        self._bar = tqdm(
            total=self._counter.last,
            initial=self._counter.first,
            unit="step",
            file=self._stream,
            disable=not self._stream.isatty(),
            leave=False,
        )

    def on_train_batch_end(self, batch, logs=None):
        """Reports when it is time."""
        self._bar.update()
        self._window.add(logs)
        # The first steps include compiling; a newcomer should see early that
        # something happens.
        early = self._counter.step - self._counter.first in (1, 10)
        if early or self._counter.is_multiple_of(self._every):
            self._report()

    def report_dev(self, measure):
        """Reports a measure of the dev split, a dict of figures."""
        figures = {n: value for n, value in measure.items() if n != "step"}
        self._say(f"step {self._counter.step:,}: dev {format_metrics(figures)}")
        self._summarise("dev", figures)

    def on_train_end(self, logs=None):
        """Puts away the bar."""
        self.close()

    def close(self):
        """Puts away the bar; safe to call twice."""
        self._bar.close()

    def _report(self):
        figures = self._window.figures()
        self._window = _Window()
        self._say(
            f"step {self._counter.step:,}/{self._counter.last:,}: "
            f"{format_metrics(figures)}, "
            f"learning rate {figures['learning_rate']:.2e}, "
            f"{figures['tokens_per_second']:,.0f} tokens/s, "
            f"{clock(self._seconds_left())} left"
        )
        self._summarise("train", figures)

    def _seconds_left(self):
        now = time.monotonic()
        counter = self._counter
        done = counter.step - counter.first
        left = (counter.last - counter.step) * (now - self._started) / done
        if self._stop_time is not None:
            left = min(left, self._stop_time - now)
        return max(left, 0.0)

    def _say(self, line):
        tqdm.write(line, file=self._stream)
        self._stream.flush()

    def _summarise(self, run, figures):
        with self._writers[run].at(self._counter.step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)


class _Window:
    """The steps since the last report."""

    def __init__(self):
        self._started = time.monotonic()
        self._means = TokenMeans()
        self._last = None

    def add(self, logs):
        self._means.add(logs)
        self._last = logs

    def figures(self):
        seconds = max(time.monotonic() - self._started, 1e-9)
        return {
            **self._means.figures(),
            "tokens_per_second": self._means.tokens / seconds,
            "learning_rate": float(self._last["learning_rate"]),
        }


def format_metrics(figures):
    """Returns the figures of a measure in words."""
    described = (
        f"loss {figures['loss']:.3f}, perplexity {figures['perplexity']:.2f}, "
        f"accuracy {figures['accuracy']:.1%}"
    )
    name = score_name(figures)
    if name:
        described += f", {SCORE_TITLES[name]} {figures[name]:.2f}"
    return described
