import os
import signal

import pytest

from trainers.processes import StopSignals

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def usual():
    """What a process of its own would do; restored after the test."""

    def terminate(number, frame):
        raise SystemExit(128 + number)

    handlers = (signal.default_int_handler, terminate)
    before = [signal.signal(*pair) for pair in zip(SIGNALS, handlers)]
    yield list(handlers)
    for pair in zip(SIGNALS, before):
        signal.signal(*pair)


def _handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_once_and_does_not_kill(number, usual):
    asked = []
    with StopSignals(lambda: asked.append(number)) as signals:
        assert signals.received == 0
        os.kill(os.getpid(), number)
        assert asked == [number]
    assert signals.received == number
    assert _handlers() == usual


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize(
    ("second", "expected"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_a_second_signal_acts_as_usual(first, second, expected, usual):
    asked = []
    with pytest.raises(expected), StopSignals(lambda: asked.append(1)):
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), second)
    assert asked == [1]
    assert _handlers() == usual


def test_handlers_are_restored_without_a_signal_and_after_an_error(usual):
    with StopSignals(lambda: None):
        assert _handlers() != usual
    assert _handlers() == usual
    with pytest.raises(ValueError), StopSignals(lambda: None):
        raise ValueError
    assert _handlers() == usual
