"""Progress of long work, with its rate and the remaining time."""

import sys
import time

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 30.0


class ProgressBar:
    """A progress bar on a terminal; elsewhere a line every half minute.

    Args:
        what: description, such as "Tokenizing train".
        total: number of units; None if unknown.
        unit: name of the units, in the plural.
        done: number of units done before.
        stream: stderr by default.
    """

    def __init__(self, what, total, unit, done=0, stream=None):
        self._stream = stream or sys.stderr
        self._what, self._total, self._unit = what, total, unit
        self._first = self._done = done
        self._started = self._printed = time.monotonic()
        self._bar = tqdm(
            desc=what,
            total=total,
            initial=done,
            unit=f" {unit}",
            file=self._stream,
            disable=not self._stream.isatty(),
        )

    def skip(self, count):
        """Adds `count` units that were done before; the rate ignores them."""
        self._first += count
        if not self._bar.disable:
            self._bar.initial += count
        self.update(count)

    def update(self, count):
        """Adds `count` units."""
        self._done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._bar.disable and now - self._printed >= _SECONDS_BETWEEN_LINES:
            self._printed = now
            print(self._line(now), file=self._stream, flush=True)

    def _line(self, now):
        rate = (self._done - self._first) / (now - self._started)
        line = f"{self._what}: {self._done:,}"
        if self._total:
            line += f" of {self._total:,}"
        line += f" {self._unit}, {rate:,.0f} a second"
        if self._total and rate:
            left = max(self._total - self._done, 0) / rate
            line += f", {clock(left)} left"
        return line

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._bar.close()


def clock(seconds):
    """Returns seconds as "m:ss" or "h:mm:ss"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
