import io
import re
import types

import pytest
import tqdm.std

from export.common.progress_bar import ProgressBar, format_duration


@pytest.fixture
def now(monkeypatch):
    now = types.SimpleNamespace(seconds=500.0)
    monkeypatch.setattr(tqdm.std, "time", lambda: now.seconds)
    return now


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _work(now, stream, steps, total=1000, skipped=0):
    """Updates by 10 every 8 seconds."""
    with ProgressBar("Reading", total, "pairs", stream=stream) as bar:
        bar.skip(skipped)
        for _ in range(steps):
            now.seconds += 8.0
            bar.update(10)
    return stream.getvalue().splitlines()


def test_without_a_terminal_there_is_a_line_every_half_minute(now):
    for arguments, expected in (
        ({"steps": 3}, []),
        (
            {"steps": 9},
            [
                "Reading: 40 of 1000 [00:32<12:48, 1.25 pairs/s]",
                "Reading: 80 of 1000 [01:04<12:16, 1.25 pairs/s]",
            ],
        ),
        # What was done before is no speed.
        (
            {"steps": 4, "total": 540, "skipped": 400},
            ["Reading: 440 of 540 [00:32<01:20, 1.25 pairs/s]"],
        ),
        (
            {"steps": 4, "total": None},
            ["Reading: 40 [00:32, 1.25 pairs/s]"],
        ),
    ):
        assert _work(now, io.StringIO(), **arguments) == expected


def test_a_terminal_gets_a_bar_and_no_lines(now):
    text = "".join(_work(now, _Terminal(), 9))
    assert re.search(r"Reading:.*\| \d+/1000 ", text)
    assert "\n" not in text


def test_durations():
    assert [*map(format_duration, (0.4, 59.6, 3599, 36_610))] == [
        *("0:00", "1:00", "59:59", "10:10:10")
    ]
