"""Reports a training on the terminal and to TensorBoard."""

import time

import keras
import tensorflow as tf
from tqdm import tqdm

from export.common.progress_bar import clock
from trainers.pictures.summaries import EventWriter
from trainers.training.callbacks import TokenMeans
from trainers.training.dev_scores import SCORE_TITLES, score_name


class Progress(keras.callbacks.Callback):
    """Reports means over target tokens every N steps, and dev evaluations.

    On a terminal, shows a progress bar too. TensorBoard gets loss, perplexity,
    accuracy, learning rate and tokens per second of train, and each evaluation
    on dev.

    `every` is the number of steps between reports, `stop_time` the
    `time.monotonic()` at which training will stop, or None.

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
        self._reset_means()

    def on_train_begin(self, logs=None):
        """Starts the clock and the progress bar."""
        self._started = time.monotonic()
        self._reset_means()
        self._bar = tqdm(
            total=self._counter.last,
            initial=self._counter.first,
            unit="step",
            file=self._stream,
            disable=not self._stream.isatty(),
            leave=False,
        )

    def on_train_batch_end(self, batch, logs=None):
        """Reports when due."""
        self._bar.update()
        self._means.add(logs)
        # After steps 1 and 10 too: compilation makes the first steps slow.
        early = self._counter.step - self._counter.first in (1, 10)
        if early or self._counter.is_multiple_of(self._every):
            self._report(float(logs["learning_rate"]))

    def report_dev(self, evaluation):
        """Reports an evaluation on the dev split."""
        metrics = {n: value for n, value in evaluation.items() if n != "step"}
        self._print(f"step {self._counter.step:,}: dev {to_text(metrics)}")
        self._write_scalars("dev", metrics)

    def on_train_end(self, logs=None):
        """Removes the progress bar."""
        self._bar.close()

    def _reset_means(self):
        self._means_started = time.monotonic()
        self._means = TokenMeans()

    def _report(self, learning_rate):
        seconds = max(time.monotonic() - self._means_started, 1e-9)
        metrics = {
            **self._means.means(),
            "tokens_per_second": self._means.tokens / seconds,
            "learning_rate": learning_rate,
        }
        self._reset_means()
        self._print(
            f"step {self._counter.step:,}/{self._counter.last:,}: "
            f"{to_text(metrics)}, learning rate {learning_rate:.2e}, "
            f"{metrics['tokens_per_second']:,.0f} tokens/s, "
            f"{clock(self._seconds_left())} left"
        )
        self._write_scalars("train", metrics)

    def _seconds_left(self):
        now, counter = time.monotonic(), self._counter
        done = counter.step - counter.first
        left = (counter.last - counter.step) * (now - self._started) / done
        if self._stop_time is not None:
            left = min(left, self._stop_time - now)
        return max(left, 0.0)

    def _print(self, line):
        tqdm.write(line, file=self._stream)
        self._stream.flush()

    def _write_scalars(self, run, metrics):
        with self._writers[run].at_step(self._counter.step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)


def to_text(metrics):
    """Formats loss, perplexity, accuracy and score."""
    text = (
        f"loss {metrics['loss']:.3f}, perplexity {metrics['perplexity']:.2f}, "
        f"accuracy {metrics['accuracy']:.1%}"
    )
    name = score_name(metrics)
    if name:
        text += f", {SCORE_TITLES[name]} {metrics[name]:.2f}"
    return text
