"""Runs another command of ours and passes signals on to it."""

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
    signals = StopSignals(lambda: process.send_signal(signals.received))
    try:
        with signals:
            code = process.wait()
    finally:
        process.kill()
        process.wait()
    return code if code >= 0 else 128 - code
