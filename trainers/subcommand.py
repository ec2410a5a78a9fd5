"""Runs another command of ours and passes signals on to it."""

import signal
import subprocess
import sys

from trainers.stop_signals import StopSignals


def run_subcommand(module, arguments):
    """Runs a command as a process of its own, to its end.

    The first Ctrl-C or SIGTERM is passed on, so that a training saves; a
    second one ends both at once.

    Args:
        module: such as "trainers.wmt".
        arguments: its flags, list of str.

    Returns:
        Its exit code, as a shell tells it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        # A terminal would send it a Ctrl-C beside the one passed on, and two
        # mean: do not save.
        start_new_session=True,
    )
    before = signal.getsignal(signal.SIGTERM)

    def pass_on():
        process.send_signal(signals.received)
        # By default a second one would end this process alone.
        signal.signal(signal.SIGTERM, _leave)

    signals = StopSignals(pass_on)
    try:
        with signals:
            code = process.wait()
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code


def _leave(number, frame):
    del frame
    sys.exit(128 + number)
