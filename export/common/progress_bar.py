"""Progress of long work, with its rate and the remaining time."""

import sys

from tqdm import tqdm

# Without a terminal, which could not overwrite a bar.
_LINES = {
    "bar_format": "{desc}: {n_fmt} of {total_fmt} [{elapsed}<{remaining}, "
    "{rate_fmt}]",
    **{"delay": 30.0, "mininterval": 30.0, "leave": False},
}
# Its thread serves bars without `miniters` only.
tqdm.monitor_interval = 0


class ProgressBar:
    """A progress bar on a terminal; elsewhere a line every half minute.

    Args:
        what: description, such as "Tokenizing train".
        total: number of units; None if unknown.
        unit: name of the units, in the plural.
        stream: stderr by default.
    """

    def __init__(self, what, total, unit, stream=None):
        stream = stream or sys.stderr
        is_terminal = stream.isatty()
        self._bar = tqdm(
            desc=what,
            total=total,
            unit=f" {unit}",
            smoothing=0,
            miniters=1,
            file=stream if is_terminal else _LineStream(stream),
            **({} if is_terminal else _LINES),
        )

    def skip(self, count):
        """Adds `count` units that were done before; the rate ignores them."""
        self._bar.initial += count
        self._bar.update(count)

    def update(self, count):
        """Adds `count` units."""
        self._bar.update(count)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._bar.close()


class _LineStream:
    """Writes each state of a bar as a line."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        line = " ".join(text.split())
        if line:
            print(line, file=self._stream, flush=True)

    def flush(self):
        pass


def clock(seconds):
    """Returns seconds as "m:ss" or "h:mm:ss"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
