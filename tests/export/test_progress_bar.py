import io
import re
import types

import pytest

from export import progress_bar
from export.progress_bar import ProgressBar, clock


@pytest.fixture
def now(monkeypatch):
    now = types.SimpleNamespace(seconds=500.0)
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now.seconds)
    return now


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _work(now, stream, steps, total=1000, done=0):
    """Updates by 10 every 8 seconds."""
    with ProgressBar(
        "Tokenising train", total, "pairs", done, stream=stream
    ) as bar:
        for _ in range(steps):
            now.seconds += 8.0
            bar.update(10)
    return stream.getvalue()


def test_without_a_terminal_there_is_a_line_every_half_minute(now):
    lines = _work(now, io.StringIO(), 9).splitlines()
    assert lines == [
        "Tokenising train: 40 of 1,000 pairs, 1 a second, 12:48 left",
        "Tokenising train: 80 of 1,000 pairs, 1 a second, 12:16 left",
    ]


def test_short_work_says_nothing(now):
    assert _work(now, io.StringIO(), 3) == ""


def test_what_was_done_before_counts_as_done_and_not_as_speed(now):
    (line,) = _work(now, io.StringIO(), 4, total=540, done=400).splitlines()
    # 40 in 32 seconds; 100 are left.
    assert line == "Tokenising train: 440 of 540 pairs, 1 a second, 1:20 left"


def test_what_turns_out_to_be_done_is_no_speed_either(now):
    stream = io.StringIO()
    with ProgressBar("Translating", 540, "lines", stream=stream) as bar:
        bar.pass_over(400)
        for _ in range(4):
            now.seconds += 8.0
            bar.update(10)
    (line,) = stream.getvalue().splitlines()
    assert line == "Translating: 440 of 540 lines, 1 a second, 1:20 left"


def test_without_a_total_no_time_left_is_claimed(now):
    (line,) = _work(now, io.StringIO(), 4, total=None).splitlines()
    assert line == "Tokenising train: 40 pairs, 1 a second"


def test_more_than_the_total_leaves_no_time(now):
    (line,) = _work(now, io.StringIO(), 4, total=30).splitlines()
    assert line.endswith("40 of 30 pairs, 1 a second, 0:00 left")


def test_no_progress_at_all_is_no_division_by_zero(now):
    stream = io.StringIO()
    with ProgressBar("Waiting", 7, "things", stream=stream) as bar:
        now.seconds += 31
        bar.update(0)
    assert stream.getvalue() == "Waiting: 0 of 7 things, 0 a second\n"


def test_a_terminal_gets_a_bar_and_no_lines(now):
    text = _work(now, _Terminal(), 9)
    assert "Tokenising train:" in text
    assert re.search(r"\| \d+/1000 ", text)
    assert "a second" not in text
    assert text.endswith("\n")


def test_stderr_is_told_where_nothing_is_said(now, capsys):
    with ProgressBar("Tokenising", 10, "pairs") as bar:
        now.seconds += 31
        bar.update(5)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Tokenising: 5 of 10 pairs")


def test_an_error_goes_through(now):
    with pytest.raises(KeyError), ProgressBar("a", 1, "b", stream=_Terminal()):
        raise KeyError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (0.4, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (3599, "59:59"),
        (3599.7, "1:00:00"),
        (36_610, "10:10:10"),
    ],
)
def test_the_clock(seconds, text):
    assert clock(seconds) == text
