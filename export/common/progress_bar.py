"""Progress bars of long work, and durations as text."""

import sys
import typing

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 30.0


class ThreadlessBar(tqdm):
    """A tqdm bar without the thread that refreshes bars of rare updates."""

    monitor_interval = 0


class ProgressBar:
    """A progress bar on a terminal; elsewhere a line every half minute.

    Args:
        description: such as "Tokenizing train".
        total: number of items; None if unknown.
        unit: name of the items, in the plural.
        stream: stderr by default.
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        stream: typing.TextIO | None = None,
    ):
        stream = stream or sys.stderr
        options: dict[str, typing.Any] = {"file": stream}
        if not stream.isatty():
            # A bar could not be overwritten.
            line = "{desc}: {n_fmt} [{elapsed}, {rate_fmt}]"
            if total:
                line = (
                    "{desc}: {n_fmt} of {total_fmt} "
                    "[{elapsed}<{remaining}, {rate_fmt}]"
                )
            options = {
                "file": _LineStream(stream),
                "bar_format": line,
                "delay": _SECONDS_BETWEEN_LINES,
                "mininterval": _SECONDS_BETWEEN_LINES,
                "leave": False,
            }
        self._bar = ThreadlessBar(
            **options,
            desc=description,
            total=total,
            unit=f" {unit}",
            smoothing=0,
            miniters=1,
        )

    def skip(self, count: int) -> None:
        """Adds `count` items that were done before; the rate ignores them."""
        # The rate is that of the items above `initial`.
        self._bar.initial += count
        self._bar.update(count)

    def update(self, count: int) -> None:
        """Adds `count` items."""
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


def format_duration(seconds: float) -> str:
    """Returns seconds as "m:ss" or "h:mm:ss"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
