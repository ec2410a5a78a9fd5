import os
import signal

import pytest

from export.common.processes import StopSignals

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def usual():
    """The handlers of a process of its own; restored after the test."""

    def terminate(number, frame):
        raise SystemExit(128 + number)

    handlers = [signal.default_int_handler, terminate]
    before = [signal.signal(*pair) for pair in zip(SIGNALS, handlers)]
    yield handlers
    for pair in zip(SIGNALS, before):
        signal.signal(*pair)


def _handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize(
    ("second", "expected"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_the_first_signal_asks_and_the_second_acts(
    first, second, expected, usual
):
    calls = []
    with StopSignals(lambda: calls.append(1)) as signals:
        assert signals.received == 0
        assert _handlers() != usual
        os.kill(os.getpid(), first)
        assert signals.received == first
        with pytest.raises(expected):
            os.kill(os.getpid(), second)
    assert calls == [1]
    assert _handlers() == usual


def test_handlers_are_restored_after_an_error(usual):
    with pytest.raises(ValueError), StopSignals(lambda: None):
        raise ValueError
    assert _handlers() == usual
