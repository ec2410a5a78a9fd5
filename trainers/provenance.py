"""By what, on what, when and how long something was made."""

import datetime
import json
import pathlib
import platform
import sys
import time

from export.command import command_line
from export.errors import InputError
from export.files.atomic import written_whole
from trainers import processes


def hardware():
    """Returns what TensorFlow computes on: GPUs, or else the processor."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return f"{len(gpus)} x {details.get('device_name', 'GPU')}"
    return f"{processes.processor_count()} cores of {_processor()}"


def describe_run(module):
    """Returns the running command, the hardware and the date, as a dict.

    Args:
        module: of the command.
    """
    today = datetime.datetime.now(datetime.UTC).date()
    return {
        "command": command_line(module, *sys.argv[1:]),
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


class TrainingLog:
    """The file `training.json` of a model directory.

    It holds a list `runs`, of each run of the training command its first and
    last step, seconds from the first update on, command, hardware and date,
    and `weights`: the step of model.weights.h5 and what it was made from.

    Args:
        directory: ModelDirectory.

    Raises:
        InputError: the file is not of this form.
    """

    def __init__(self, directory):
        self._path = directory.path / "training.json"
        self._started = 0.0
        self._content = self._read()

    @property
    def weights(self):
        """Dict of `step` and `made_from`; empty where no training wrote it."""
        return self._content["weights"]

    def begin(self, step, facts):
        """Opens the entry of this run; nothing is written yet.

        Args:
            step: updates made before.
            facts: dict of command, hardware and date.
        """
        self._started = time.monotonic()
        run = {"first_step": step, "last_step": step, "seconds": 0.0, **facts}
        self._content["runs"].append(run)

    def note(self, step):
        """Writes how far this run is, which is what a checkpoint holds.

        Args:
            step: updates made.
        """
        run = self._content["runs"][-1]
        run["last_step"] = step
        run["seconds"] = round(time.monotonic() - self._started, 1)
        self._write()

    def note_weights(self, step, made_from):
        """Writes what model.weights.h5 holds.

        Args:
            step: updates made.
            made_from: in words.
        """
        self._content["weights"] = {"step": step, "made_from": made_from}
        self._write()

    def summary(self):
        """Returns what a score says of the training, as a dict.

        Its `seconds` are summed over the runs; `steps` are those that they
        made, fewer than the model's where some were made before there was a
        log, and more where some were made twice.
        """
        runs = self._content["runs"]
        if not runs:
            return {}
        hardware = dict.fromkeys(run["hardware"] for run in runs)
        return {
            "command": runs[-1]["command"],
            "runs": len(runs),
            "steps": sum(run["last_step"] - run["first_step"] for run in runs),
            "seconds": round(sum(run["seconds"] for run in runs), 1),
            "hardware": "; ".join(hardware),
            "date": runs[-1]["date"],
        }

    def _read(self):
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"runs": [], "weights": {}}
        except (OSError, ValueError) as error:
            raise self._not_ours(error) from error
        try:
            for run in content["runs"]:
                run["last_step"] - run["first_step"] + run["seconds"]
                run["command"] + run["hardware"] + run["date"]
            if content["weights"]:
                content["weights"]["step"] + 0
                content["weights"]["made_from"] + ""
        except (KeyError, TypeError) as error:
            raise self._not_ours(error) from error
        return content

    def _not_ours(self, error):
        return InputError(
            f"{self._path} is not the log of a training ({error!r}); remove "
            "it: only times and commands are lost."
        )

    def _write(self):
        with written_whole(self._path) as temporary:
            temporary.write_text(
                json.dumps(self._content, indent=2) + "\n", encoding="utf-8"
            )
