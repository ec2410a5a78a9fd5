"""Entries of scores.json, and the log of a training in training.json.

config.json records the configuration of a training, run.json the data, seed,
batching and so on, which may not change when a training is resumed.
`--precision`, `--jit`, `--accumulate`, `--strategy` and the devices also affect
the updates (rounding, dropout masks, number format), but may change: only
`command` and `hardware` in training.json record them.
"""

import datetime
import json
import pathlib
import platform
import re
import sys
import time
import typing

import keras

from export.common import processes
from export.common.command import command_line
from export.common.errors import InputError
from export.common.storage import write_json

if typing.TYPE_CHECKING:
    from export.model_directory import ModelDirectory
    from keras_transformer.config import TransformerConfig

Record: typing.TypeAlias = dict[str, typing.Any]

# Entries with equal values in these fields belong to the same evaluation.
_IDENTITY = (
    *("metric", "signature", "dataset", "split", "step", "weights"),
    *("source_language", "target_language"),
    *("sentences", "references", "reference_length"),
    *("beam_size", "alpha", "length_penalty"),
)


def add_record(records: list[Record], record: Record) -> list[Record]:
    """Adds a record to a list, or replaces an earlier one of the evaluation.

    If the score is the same, other metrics such as perplexity are kept.
    """
    for index, earlier in enumerate(records):
        if all(earlier.get(name) == record.get(name) for name in _IDENTITY):
            if earlier["score"] == record["score"]:
                record = {**earlier, **record}
            return [*records[:index], record, *records[index + 1 :]]
    return [*records, record]


def save_scores(
    directory: "ModelDirectory",
    model: keras.Model,
    scores: Record,
    config: "TransformerConfig",
    data: dict[str, str],
    run_info: dict[str, str],
) -> None:
    """Adds an entry to scores.json; see `add_record`.

    `scores` has metric, score, signature and so on, `data` dataset, languages
    and split; `config` is that of the search, and `run_info` the result of
    `describe_run`.
    """
    log = TrainingLog(directory)
    record = {
        **scores,
        **data,
        "beam_size": config.beam_size,
        "alpha": config.alpha,
        "length_penalty": config.length_penalty,
        "step": log.weights.get("step"),
        "weights": log.weights.get("made_from"),
        "parameters": model.count_params(),
        "training": log.summary(),
        **run_info,
    }
    directory.write_scores(add_record(directory.read_scores(), record))


def describe_run(module: str) -> dict[str, str]:
    """Returns the current `command`, the `hardware` and the `date`."""
    today = datetime.datetime.now(datetime.UTC).date()
    return {
        "command": command_line(module, *sys.argv[1:]),
        "hardware": _hardware(),
        "date": today.isoformat(),
    }


def _gpu_names():
    # Imported here: an export's session needs a process without TensorFlow, and
    # JAX none.
    if keras.backend.backend() == "jax":
        import jax

        devices = jax.devices()
        return [each.device_kind for each in devices if each.platform != "cpu"]
    import tensorflow as tf

    return [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]


def _hardware():
    gpus = _gpu_names()
    if gpus:
        return f"{len(gpus)} x {gpus[0]}"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    processor = name[1] if name else platform.machine()
    return f"{processes.processor_count()} cores of {processor}"


class TrainingLog:
    """The file training.json of a ModelDirectory.

    `runs` has first and last step, seconds, Keras' backend, command, hardware
    and date of each run; `weights` has `step` and `made_from` of
    model.weights.h5; `plan`, after --train_minutes decided the number of
    updates, has `train_minutes`, `train_steps` and `cooldown_steps`.
    """

    def __init__(self, directory: "ModelDirectory"):
        self._path = directory.path / "training.json"
        self._started = 0.0
        self._content = self._read()

    @property
    def weights(self) -> Record:
        """Dict of `step` and `made_from`; empty if no training wrote it."""
        return self._content["weights"]

    @property
    def last_step(self) -> int:
        """The last step that any run has saved, 0 before it."""
        steps = [run["last_step"] for run in self._content["runs"]]
        return max(steps, default=0)

    def start_run(self, step: int, run_info: dict[str, str]) -> None:
        """Adds a run that begins after a step; `run_info` of `describe_run`."""
        self._started = time.monotonic()
        run = {"first_step": step, "last_step": step, "seconds": 0.0}
        run["backend"] = keras.backend.backend()
        self._content["runs"].append(run | run_info)

    def record_step(self, step: int) -> None:
        """Writes the last step that this run has saved."""
        run = self._content["runs"][-1]
        run["last_step"] = step
        run["seconds"] = round(time.monotonic() - self._started, 1)
        write_json(self._path, self._content)

    def record_weights(self, step: int, made_from: str) -> None:
        """Writes the step and the origin, such as "average", of the weights."""
        self._content["weights"] = {"step": step, "made_from": made_from}
        write_json(self._path, self._content)

    @property
    def plan(self) -> Record:
        """Dict of `record_plan`; empty if there was none."""
        return self._content.get("plan", {})

    def record_plan(
        self, train_minutes: float, config: "TransformerConfig"
    ) -> None:
        """Writes the updates that fit into the time."""
        self._content["plan"] = {
            "train_minutes": train_minutes,
            "train_steps": config.train_steps,
            "cooldown_steps": config.cooldown_steps,
        }
        write_json(self._path, self._content)

    def summary(self) -> Record:
        """Returns a dict for a record, with repeated steps in its sums."""
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
            for run in content["runs"]:
                run["last_step"] - run["first_step"] + run["seconds"]
                run["command"] + run["hardware"] + run["date"]
            if plan := content.get("plan"):
                plan["train_steps"] - plan["cooldown_steps"]
                plan["train_minutes"] + 0
            if content["weights"]:
                content["weights"]["step"] + 0
                content["weights"]["made_from"] + ""
        except FileNotFoundError:
            return {"runs": [], "weights": {}}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self._path} is not the log of a training ({error!r}); "
                "remove it: only its steps, times and commands are lost."
            ) from error
        return content
