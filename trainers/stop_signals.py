"""Ctrl-C and SIGTERM end a training after its current step."""

import signal


class StopSignals:
    """A context in which SIGINT and SIGTERM ask instead of kill.

    A second signal acts as usual.

    Args:
        stop: function without arguments, called at the first signal.

    Attributes:
        received: number of the signal, 0 while there was none.
    """

    def __init__(self, stop):
        self.received = 0
        self._stop = stop
        self._previous = {}

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        self._restore()

    def _restore(self):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number, frame):
        del frame
        self.received = number
        self._restore()
        self._stop()
