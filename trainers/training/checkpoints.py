"""Checkpoints, from which a training resumes exactly.

`step-00001000.npz` is written atomically and holds:

- `weight/*`: the model's weights,
- `state/*`: the random states of the model's dropout,
- `optimizer/*`: Adam's moments, number of updates, moving average if any,
- `step`: the number of updates, which also gives the position in the data,
- `history`: JSON of the evaluations on dev so far,
- `names`: all names above, since zip files have no checksum of names.

A resumed training computes the same bits as an uninterrupted one (on GPUs with
`--deterministic`) unless `--precision`, `--jit`, `--accumulate`, `--strategy`
or the hardware changed; only the commands in training.json record these. The
final weights may be an average of checkpoints, and which steps have one depends
on the clock, unless `--checkpoint_minutes` and `--train_minutes` are 0.

There may also be `best-00000750.npz`, the best by dev, and
`stop-00000813.npz`, written because of a signal.
"""

import json
import os
import pathlib
import re
import typing
from collections.abc import Iterable, Mapping

import numpy as np
from absl import logging

from export.common.errors import InputError
from export.common.storage import atomic_write, remove_temporary_files

if typing.TYPE_CHECKING:
    from trainers.training.training_base import TrainingBase

_NAMES = "names"
_HISTORY = "history"
_FILE = re.compile(r"(step|best|stop)-(\d{8,})\.npz")


def divergence_error(quantity: str) -> InputError:
    """Returns an InputError for a `quantity` such as "The loss of step 7"."""
    return InputError(
        f"{quantity} is not a finite number: training diverged. The earlier "
        "checkpoints are kept; start again with a lower learning_rate_scale or "
        "more warmup_steps, in another --model_dir."
    )


class Checkpoints:
    """Checkpoints of one training; the latest `keep` are kept."""

    def __init__(self, folder: str | os.PathLike, keep: int):
        self.folder = pathlib.Path(folder)
        self.keep = keep

    def steps(self) -> list[int]:
        """Returns the steps of the latest checkpoints, ascending."""
        return [step for step, prefix in self._list_files() if prefix == "step"]

    def path(self, step: int, prefix: str = "step") -> pathlib.Path:
        """Returns the path of a step; prefix "step", "best" or "stop"."""
        return self.folder / f"{prefix}-{step:08d}.npz"

    def save(
        self,
        model: "TrainingBase",
        step: int,
        history: Iterable[Mapping[str, float]] = (),
        prefix: str = "step",
    ) -> None:
        """Writes a checkpoint and removes outdated ones of its prefix.

        The next "step" removes "stop", too, which is never averaged, so that
        interruptions do not change the average. `history` is the list of
        evaluations on dev. InputError if the file cannot be written or a value
        is not finite; earlier checkpoints are untouched.
        """
        self._write(self.path(step, prefix), model, step, history)
        for old in self.steps()[::-1][self.keep :]:
            self.path(old).unlink()
        outdated = "stop" if prefix == "step" else prefix
        for old, old_prefix in self._list_files():
            if old_prefix == outdated and (old, old_prefix) != (step, prefix):
                self.path(old, old_prefix).unlink()

    def restore_latest(
        self, model: "TrainingBase"
    ) -> tuple[int, list[dict[str, float]]]:
        """Loads the latest valid checkpoint; warns of damaged ones.

        Returns its step and history, see `save`, or 0 and [] if there is none.
        InputError if a checkpoint is of another model or all are damaged.
        """
        files = self._list_files()
        for step, prefix in reversed(files):
            path = self.path(step, prefix)
            arrays = _read_arrays(path)
            if arrays is not None:
                _assign_arrays(model, arrays, path)
                return step, json.loads(str(arrays[_HISTORY]))
        if files:
            raise InputError(
                f"All checkpoints in {self.folder} are damaged; restore one, "
                "or use another --model_dir."
            )
        return 0, []

    def restore_step(self, model: "TrainingBase", step: int) -> bool:
        """Loads the checkpoint of a step; returns whether it succeeded."""
        for path in (self.path(step, "best"), self.path(step)):
            arrays = _read_arrays(path) if path.exists() else None
            if arrays is not None:
                _assign_arrays(model, arrays, path)
                return True
        return False

    def load_average(
        self, model: "TrainingBase", count: int, first: int = 0
    ) -> list[int]:
        """Sets the weights to the mean of checkpoints (section 6.1).

        Averages the latest `count` ones or fewer, none from before step
        `first`, and returns their steps. Does not change the optimizer.
        """
        averaged: list[int] = []
        sums = [np.zeros(weight.shape) for _, weight in _named_weights(model)]
        for step in reversed(self.steps()):
            if len(averaged) == count or step < first:
                break
            arrays = _read_arrays(self.path(step))
            if arrays is not None:
                for total, (name, _) in zip(sums, _named_weights(model)):
                    total += arrays[name]
                averaged.append(step)
        if averaged:
            for (_, variable), total in zip(_named_weights(model), sums):
                variable.assign((total / len(averaged)).astype(np.float32))
        return sorted(averaged)

    def _list_files(self):
        """Returns (step, prefix) of each file, ascending."""
        matches = [_FILE.fullmatch(each.name) for each in self.folder.glob("*")]
        return sorted((int(match[2]), match[1]) for match in matches if match)

    def _write(self, path, model, step, history):
        arrays = {
            name: variable.numpy() for name, variable in _named_variables(model)
        }
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise divergence_error(f"A value of {name} after step {step:,}")
        arrays["step"] = np.array(step, np.int64)
        arrays[_HISTORY] = np.array(json.dumps(list(history)))
        arrays[_NAMES] = np.array(sorted(arrays))
        remove_temporary_files(self.folder, "*-*.npz")
        with atomic_write(path) as temporary:
            np.savez(temporary, **arrays)


def _name_variables(prefix, variables):
    return [(f"{prefix}/{i:04d}", each) for i, each in enumerate(variables)]


def _named_weights(model):
    return _name_variables("weight", model.weights)


def _named_variables(model):
    # Keras' `model.weights` excludes the states of seed generators.
    weights = {id(variable) for variable in model.weights}
    state = [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in weights
    ]
    return [
        *_named_weights(model),
        *_name_variables("state", state),
        *_name_variables("optimizer", model.optimizer.variables),
    ]


def _read_arrays(path):
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        names = arrays.pop(_NAMES)
        if sorted(arrays) != names.tolist():
            raise ValueError("arrays are missing")
        return arrays
    # Damaged archives raise many types, even NotImplementedError ("zip file
    # version 10.9").
    except Exception as error:
        logging.warning("Skipping the damaged %s: %s", path, error)
        return None


def _assign_arrays(model, arrays, path):
    named = _named_variables(model)
    names = {name for name, _ in named} | {"step", _HISTORY}
    fits = names == set(arrays) and all(
        arrays[name].shape == tuple(variable.shape) for name, variable in named
    )
    if not fits:
        raise InputError(
            f"{path} is a checkpoint of another model; use another --model_dir."
        )
    for name, variable in named:
        variable.assign(arrays[name])
