import io
import re
import types

import pytest

from export.common import progress_bar
from export.common.progress_bar import ProgressBar, clock


@pytest.fixture
def now(monkeypatch):
    now = types.SimpleNamespace(seconds=500.0)
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now.seconds)
    return now


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _work(now, stream, steps, total=1000, done=0, skipped=0):
    """Updates by 10 every 8 seconds."""
    with ProgressBar("Reading", total, "pairs", done, stream=stream) as bar:
        bar.skip(skipped)
        for _ in range(steps):
            now.seconds += 8.0
            bar.update(10)
    return stream.getvalue().splitlines()


def test_without_a_terminal_there_is_a_line_every_half_minute(now):
    resumed = "Reading: 440 of 540 pairs, 1 a second, 1:20 left"
    for arguments, expected in (
        ({"steps": 3}, []),
        (
            {"steps": 9},
            [
                "Reading: 40 of 1,000 pairs, 1 a second, 12:48 left",
                "Reading: 80 of 1,000 pairs, 1 a second, 12:16 left",
            ],
        ),
        # What was done before is no speed.
        ({"steps": 4, "total": 540, "done": 400}, [resumed]),
        ({"steps": 4, "total": 540, "skipped": 400}, [resumed]),
        ({"steps": 4, "total": None}, ["Reading: 40 pairs, 1 a second"]),
        (
            {"steps": 4, "total": 30},
            ["Reading: 40 of 30 pairs, 1 a second, 0:00 left"],
        ),
    ):
        assert _work(now, io.StringIO(), **arguments) == expected
    stream = io.StringIO()
    with ProgressBar("Waiting", 7, "things", stream=stream) as bar:
        now.seconds += 31
        bar.update(0)
    assert stream.getvalue() == "Waiting: 0 of 7 things, 0 a second\n"


def test_a_terminal_gets_a_bar_and_no_lines(now):
    text = "".join(_work(now, _Terminal(), 9))
    assert re.search(r"Reading:.*\| \d+/1000 ", text)
    assert "a second" not in text


def test_the_clock():
    assert [*map(clock, (0.4, 59.6, 3599, 36_610))] == [
        *("0:00", "1:00", "59:59", "10:10:10")
    ]
