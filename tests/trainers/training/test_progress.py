import io
import math
import types

import pytest
import tensorflow as tf

from export.common.errors import InputError
from tests.trainers import event_files
from trainers.training import progress
from trainers.training.callbacks import StepCounter
from trainers.training.progress import Progress

RATE = 3e-4
# Loss, negative log-probability, accuracy and target tokens of five steps.
STEPS = [
    (6.0, 5.0, 0.0, 100),
    (4.0, 3.0, 0.5, 10),
    (2.0, 1.5, 0.2, 700),
    (3.0, 2.5, 0.1, 1),
    (1.0, 0.5, 0.9, 50),
]


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=50.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


class _Run:
    """Drives Progress as fit does, two seconds a step."""

    def __init__(self, folder, clock, first=0, last=1000, every=100, **options):
        self.stream = options.pop("stream", io.StringIO())
        self._clock = clock
        self._counter = StepCounter(first, last)
        self._counter.set_model(types.SimpleNamespace(stop_training=False))
        stop_time = options.get("stop_time")
        self.progress = Progress(
            self._counter, folder, every, stop_time, self.stream
        )
        self.progress.on_train_begin()

    def steps(self, rows):
        for number, (loss, plain, accuracy, tokens) in enumerate(rows):
            self._clock.seconds += 2.0
            logs = {
                "loss": tf.constant(loss),
                "perplexity": tf.constant(math.exp(plain)),
                "accuracy": tf.constant(accuracy),
                "tokens": tf.constant(float(tokens)),
                "learning_rate": tf.constant(RATE),
            }
            self._counter.on_train_batch_end(number, logs)
            self.progress.on_train_batch_end(number, logs)

    def lines(self):
        self.progress.on_train_end()
        return self.stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("first", "steps"),
    [(0, ["1", "8", "10", "16"]), (1200, ["1,201", "1,208", "1,210", "1,216"])],
)
def test_reports_come_early_and_then_every_so_many_steps(
    tmp_path, clock, first, steps
):
    run = _Run(tmp_path, clock, every=8, first=first, last=9000)
    run.steps(STEPS[:4] * 4)
    found = [line.partition(":")[0] for line in run.lines()]
    assert found == [f"step {step}/9,000" for step in steps]
    # Without a dev split nothing is written of one.
    assert event_files.scalars(tmp_path / "dev") == {}


def test_means_are_over_tokens_since_the_last_report(tmp_path, clock):
    run = _Run(tmp_path, clock, every=5)
    run.steps(STEPS)
    first, second = run.lines()
    assert first.startswith("step 1/1,000: loss 6.000, perplexity 148.41, ")
    rows = STEPS[1:]
    tokens = sum(row[3] for row in rows)
    loss, plain, accuracy = (
        sum(row[i] * row[3] for row in rows) / tokens for i in range(3)
    )
    # Four steps took eight seconds.
    assert second.startswith(
        f"step 5/1,000: loss {loss:.3f}, perplexity {math.exp(plain):.2f}, "
        f"accuracy {accuracy:.1%}, learning rate 3.00e-04, "
        f"{tokens / 8:,.0f} tokens/s, "
    )
    scalars = event_files.scalars(tmp_path / "train")
    assert {name: values[1] for name, values in scalars.items()} == {
        "loss": (5, pytest.approx(loss)),
        "perplexity": (5, pytest.approx(math.exp(plain))),
        "accuracy": (5, pytest.approx(accuracy)),
        "learning_rate": (5, pytest.approx(RATE)),
        "tokens_per_second": (5, pytest.approx(tokens / 8)),
    }


@pytest.mark.parametrize(
    ("score", "text"),
    [
        ({}, ""),
        ({"bleu": 20.125}, ", BLEU 20.12"),
        ({"f1": 75.5}, ", F1 75.50"),
    ],
)
def test_evaluations_are_printed_and_written(tmp_path, clock, score, text):
    run = _Run(tmp_path, clock)
    run.steps(STEPS[:3])
    dev = {"loss": 2.5, "perplexity": 7.25, "accuracy": 0.375, **score}
    run.progress.report_dev({"step": 3, **dev})
    expected = "step 3: dev loss 2.500, perplexity 7.25, accuracy 37.5%"
    assert run.lines()[-1] == expected + text
    assert event_files.scalars(tmp_path / "dev") == {
        name: [(3, value)] for name, value in dev.items()
    }


@pytest.mark.parametrize(
    ("last", "stop_after", "left"),
    [
        # One step took 2 seconds.
        (1, None, "0:00"),
        (31, None, "1:00"),
        (2000, None, "1:06:38"),
        (10**6, 90.0, "1:28"),
        (31, 7200.0, "1:00"),
        (31, 1.0, "0:00"),
    ],
)
def test_the_time_left(tmp_path, clock, last, stop_after, left):
    stop_time = None if stop_after is None else clock.seconds + stop_after
    run = _Run(tmp_path, clock, last=last, stop_time=stop_time)
    run.steps(STEPS[:1])
    assert run.lines()[0].endswith(f", {left} left")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_means_that_are_not_finite_are_printed(tmp_path, clock, value):
    run = _Run(tmp_path, clock)
    run.steps([(value, value, 0.0, 5)])
    assert f"loss {value}, perplexity {value}" in run.lines()[0]


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_below_the_lines(tmp_path, clock):
    run = _Run(tmp_path, clock, first=20, last=40, stream=_Terminal())
    run.steps(STEPS)
    run.lines()
    text = run.stream.getvalue()
    assert "step 21/40: loss 6.000" in text
    # The bar begins where an earlier run ended.
    assert "20/40" in text


def test_event_files_that_cannot_be_written_are_refused(tmp_path, clock):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(InputError, match="logs"):
        _Run(tmp_path / "logs", clock)


def test_a_step_is_waited_for_only_when_it_is_reported(tmp_path, clock):
    class Pending:
        def __float__(self):
            raise AssertionError("waited for")

    run = _Run(tmp_path, clock)
    run.steps(STEPS[:2])
    names = ("loss", "perplexity", "accuracy", "tokens", "learning_rate")
    run.progress.on_train_batch_end(1, dict.fromkeys(names, Pending()))
    run.lines()
