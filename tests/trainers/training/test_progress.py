import io
import math
import pathlib
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

    def __init__(
        self, folder, clock, first=0, last=1000, every=100, stop_time=None
    ):
        self.stream = io.StringIO()
        self._clock = clock
        self._counter = StepCounter(first, last)
        self._counter.set_model(types.SimpleNamespace(stop_training=False))
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
        return self.stream.getvalue().splitlines()


def test_reports_come_early_and_then_every_so_many_steps(tmp_path, clock):
    run = _Run(tmp_path, clock, every=8)
    run.steps(STEPS * 5)
    run.progress.on_train_end()
    steps = [line.partition("/")[0] for line in run.lines()]
    assert steps == [f"step {n}" for n in (1, 8, 10, 16, 24)]


def test_gone_on_with_steps_count_from_the_very_first(tmp_path, clock):
    run = _Run(tmp_path, clock, every=8, first=1200, last=9000)
    run.steps(STEPS * 3)
    run.progress.on_train_end()
    steps = [line.partition(":")[0] for line in run.lines()]
    assert steps == [f"step {n}/9,000" for n in ("1,201", "1,208", "1,210")]


def test_figures_are_weighted_by_tokens_since_the_last_report(tmp_path, clock):
    run = _Run(tmp_path, clock, every=5)
    run.steps(STEPS)
    run.progress.on_train_end()
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
    ("score", "told"),
    [
        ({}, ""),
        ({"bleu": 20.125}, ", BLEU 20.12"),
        ({"f1": 75.5}, ", F1 75.50"),
    ],
)
def test_dev_figures_are_told_and_written_under_their_step(
    tmp_path, clock, score, told
):
    run = _Run(tmp_path, clock)
    run.steps(STEPS[:3])
    dev = {"loss": 2.5, "perplexity": 7.25, "accuracy": 0.375, **score}
    run.progress.report_dev({"step": 3, **dev})
    run.progress.on_train_end()
    expected = "step 3: dev loss 2.500, perplexity 7.25, accuracy 37.5%"
    assert run.lines()[-1] == expected + told
    assert event_files.scalars(tmp_path / "dev") == {
        "loss": [(3, 2.5)],
        "perplexity": [(3, 7.25)],
        "accuracy": [(3, 0.375)],
        **{name: [(3, value)] for name, value in score.items()},
    }


def test_without_a_dev_split_nothing_is_told_of_one(tmp_path, clock):
    run = _Run(tmp_path, clock)
    run.steps(STEPS[:1])
    run.progress.on_train_end()
    assert not any("dev" in line for line in run.lines())
    assert event_files.scalars(tmp_path / "dev") == {}


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
    run.progress.on_train_end()
    assert run.lines()[0].endswith(f", {left} left")


def test_a_loss_that_is_no_number_is_told_and_does_not_crash(tmp_path, clock):
    run = _Run(tmp_path, clock)
    run.steps([(math.nan, math.nan, 0.0, 5)])
    run.progress.on_train_end()
    assert "loss nan, perplexity nan" in run.lines()[0]


def test_a_perplexity_beyond_float32_is_told_and_does_not_crash(
    tmp_path, clock
):
    run = _Run(tmp_path, clock)
    run.steps([(120.0, 88.0, 0.0, 5)])
    run.steps([(120.0, math.inf, 0.0, 5)] * 9)
    run.progress.on_train_end()
    assert [line.partition(",")[0] for line in run.lines()] == [
        "step 1/1",
        "step 10/1",
    ]
    assert "perplexity inf" in run.lines()[1]


def test_event_files_lie_where_the_model_directory_says(tmp_path, clock):
    run = _Run(pathlib.Path(tmp_path, "logs"), clock)
    run.progress.close()
    run.progress.close()
    names = {path.name for path in (tmp_path / "logs").iterdir()}
    assert names == {"train", "dev"}


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_below_the_lines(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(io, "StringIO", _Terminal)
    run = _Run(tmp_path, clock, first=20, last=40)
    run.steps(STEPS)
    run.progress.on_train_end()
    text = run.stream.getvalue()
    assert "step 21/40: loss 6.000" in text
    # Where an earlier run ended, the bar begins.
    assert "20/40" in text


def test_where_no_event_file_can_be_one_line_says_so(tmp_path, clock):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(InputError, match="Cannot write .*logs: ") as caught:
        _Run(tmp_path / "logs", clock)
    assert "\n" not in str(caught.value)


def test_a_step_is_waited_for_only_when_it_is_reported(tmp_path, clock):
    """A figure asked for at once would hold up the next step."""

    class Busy:
        def __float__(self):
            raise AssertionError("waited for")

    run = _Run(tmp_path, clock)
    run.steps(STEPS[:2])
    names = ("loss", "perplexity", "accuracy", "tokens", "learning_rate")
    run.progress.on_train_batch_end(1, dict.fromkeys(names, Busy()))
    run.progress.close()
