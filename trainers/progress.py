"""Tells how a training goes, on the terminal and to TensorBoard."""

import contextlib
import math
import time

import keras
import tensorflow as tf
from tqdm import tqdm

from export.errors import InputError


class Progress(keras.callbacks.Callback):
    """Reports every few steps, each figure weighted by target tokens.

    On a terminal a bar shows rate and time left, with a line above it per
    report; without one there are only the lines. TensorBoard gets loss,
    perplexity, accuracy, learning rate and tokens per second, and the same
    of the dev split when fit measures it.

    Args:
        log_dir: TensorBoard's folder.
        first_step: updates made before this run.
        last_step: updates to be made in all.
        every: steps between reports.
        stop_time: `time.monotonic()` at which training will stop, or None.
        stream: where to print.

    Raises:
        InputError: TensorBoard's files cannot be written.
    """

    def __init__(
        self, log_dir, first_step, last_step, every, stop_time, stream
    ):
        super().__init__()
        self.step = first_step
        self._first_step = first_step
        self._last_step = last_step
        self._every = every
        self._stop_time = stop_time
        self._stream = stream
        self._log_dir = log_dir
        with self._writing():
            self._writers = {
                name: tf.summary.create_file_writer(str(log_dir / name))
                for name in ("train", "dev")
            }
        self._window = _Window()

    def on_train_begin(self, logs=None):
        """Starts the clock."""
        self._started = time.monotonic()
        self._window = _Window()
        self._bar = tqdm(
            total=self._last_step,
            initial=self._first_step,
            unit="step",
            file=self._stream,
            disable=not self._stream.isatty(),
            leave=False,
        )

    def on_train_batch_end(self, batch, logs=None):
        """Counts a step and reports when it is time."""
        self.step += 1
        self._bar.update()
        self._window.add(logs)
        # The first steps include compiling; a newcomer should see early that
        # something happens.
        early = self.step - self._first_step in (1, 10)
        if early or self.step % self._every == 0:
            self._report()

    def on_epoch_end(self, epoch, logs=None):
        """Reports what fit measured on the dev split."""
        dev = {
            name.removeprefix("val_"): float(value)
            for name, value in (logs or {}).items()
            if name.startswith("val_")
        }
        if dev:
            self._say(f"step {self.step:,}: dev {_describe(dev)}")
            self._summarise("dev", dev)

    def on_train_end(self, logs=None):
        """Puts away the bar."""
        self.close()

    def close(self):
        """Puts away the bar; safe to call twice."""
        self._bar.close()
        with self._writing():
            for writer in self._writers.values():
                writer.flush()

    def _report(self):
        figures = self._window.figures()
        self._window = _Window()
        self._say(
            f"step {self.step:,}/{self._last_step:,}: {_describe(figures)}, "
            f"learning rate {figures['learning_rate']:.2e}, "
            f"{figures['tokens_per_second']:,.0f} tokens/s, "
            f"{_clock(self._seconds_left())} left"
        )
        self._summarise("train", figures)

    def _seconds_left(self):
        now = time.monotonic()
        done = self.step - self._first_step
        left = (self._last_step - self.step) * (now - self._started) / done
        if self._stop_time is not None:
            left = min(left, self._stop_time - now)
        return max(left, 0.0)

    def _say(self, line):
        tqdm.write(line, file=self._stream)
        self._stream.flush()

    def _summarise(self, writer, figures):
        with self._writing(), self._writers[writer].as_default(step=self.step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)

    @contextlib.contextmanager
    def _writing(self):
        try:
            yield
        except tf.errors.OpError as error:
            reason = " ".join(error.message.split())
            raise InputError(
                f"Cannot write {self._log_dir}: {reason}. Make room, then "
                "run the same command again."
            ) from error


class _Window:
    """Sums over the steps since the last report."""

    def __init__(self):
        self._started = time.monotonic()
        self._tokens = 0.0
        self._learning_rate = 0.0
        self._sums = {"loss": 0.0, "perplexity": 0.0, "accuracy": 0.0}

    def add(self, logs):
        tokens = float(logs["tokens"])
        self._tokens += tokens
        self._sums["loss"] += tokens * float(logs["loss"])
        self._sums["perplexity"] += tokens * math.log(logs["perplexity"])
        self._sums["accuracy"] += tokens * float(logs["accuracy"])
        self._learning_rate = float(logs["learning_rate"])

    def figures(self):
        tokens = max(self._tokens, 1.0)
        seconds = max(time.monotonic() - self._started, 1e-9)
        return {
            "loss": self._sums["loss"] / tokens,
            "perplexity": math.exp(self._sums["perplexity"] / tokens),
            "accuracy": self._sums["accuracy"] / tokens,
            "tokens_per_second": self._tokens / seconds,
            "learning_rate": self._learning_rate,
        }


def _describe(figures):
    return (
        f"loss {figures['loss']:.3f}, perplexity {figures['perplexity']:.2f}, "
        f"accuracy {figures['accuracy']:.1%}"
    )


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
