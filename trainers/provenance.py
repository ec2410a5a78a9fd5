"""By what, on what and when something was made."""

import datetime
import pathlib
import platform
import shlex
import sys

from trainers import processors


def command_line(module):
    """Returns the running command as a user would type it.

    Args:
        module: its name, such as "trainers.wmt".
    """
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def hardware():
    """Returns what TensorFlow computes on: GPUs, or else the processor."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return f"{len(gpus)} x {details.get('device_name', 'GPU')}"
    return f"{processors.count()} cores of {_processor()}"


def facts(module):
    """Returns the running command, the hardware and the date, as a dict.

    Args:
        module: of the command.
    """
    today = datetime.datetime.now(datetime.UTC).date()
    return {
        "command": command_line(module),
        "hardware": hardware(),
        "date": today.isoformat(),
    }


def _processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
