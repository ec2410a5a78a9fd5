"""Checkpoints: all that a training needs to resume exactly.

A checkpoint is one file, `step-00001000.npz`, written atomically. It holds:

- `weight/*`: the model's weights,
- `state/*`: its other variables, the random states of dropout,
- `optimizer/*`: the optimizer's variables: Adam's moments, the number of
  updates, a moving average of the weights if there is one,
- `step`: the number of updates. It alone gives the position in the data,
  because batch n is a function of seed and n (trainers/batches/batch_plan.py),
- `history`: the evaluations on dev so far, JSON,
- `names`: all of the above, so that a missing array is noticed.

So a resumed training repeats, bit for bit, what an uninterrupted one computes
(with `--deterministic` on GPUs), unless `--precision`, `--jit`,
`--accumulate`, `--strategy` or the hardware changed; run.json does not record
these, only the commands in training.json show them.

Beside the latest checkpoints there may be the best one by dev,
`best-00000750.npz`, and one written because of a signal, `stop-00000813.npz`.
The zip format has a checksum of each array.
"""

import json
import pathlib
import re
import typing

import numpy as np
from absl import logging

from export.common.atomic_files import atomic_write, remove_temporary_files
from export.common.errors import InputError

# The zip format's checksums do not cover the names of arrays.
_NAMES = "names"
_HISTORY = "history"
_FILE = re.compile(r"(step|best|stop)-(\d{8,})\.npz")


class Restored(typing.NamedTuple):
    """Where a training resumes: updates made, and evaluations on dev."""

    step: int
    history: list


def divergence_error(what):
    """Returns the InputError for `what`, such as "The loss of step 7"."""
    return InputError(
        f"{what} is not a finite number: training diverged. The earlier "
        "checkpoints are kept; start again with a lower learning_rate_scale or "
        "more warmup_steps, in another --model_dir."
    )


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: their folder; it need not exist yet.
        keep: number of latest ones to keep.
    """

    def __init__(self, folder, keep):
        self.folder = pathlib.Path(folder)
        self.keep = keep

    def steps(self):
        """Returns the steps of the latest checkpoints, ascending."""
        return [step for step, kind in self._list() if kind == "step"]

    def path(self, step, kind="step"):
        """Returns the file of a step; kind is "step", "best" or "stop"."""
        return self.folder / f"{kind}-{step:08d}.npz"

    def save(self, model, step, history=()):
        """Writes a checkpoint and removes those no longer needed.

        Args:
            model: a compiled model with its optimizer built.
            step: number of updates made.
            history: evaluations on dev so far, list of dict of numbers.

        Raises:
            InputError: the file cannot be written, or a value is not finite;
                earlier checkpoints are untouched.
        """
        self._write(self.path(step), model, step, history)
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink()
        self._remove("stop")

    def save_best(self, model, step, history):
        """Writes a checkpoint, as `save`, that replaces the earlier best."""
        self._write(self.path(step, "best"), model, step, history)
        self._remove("best", except_step=step)

    def save_stop(self, model, step, history):
        """Writes a checkpoint, as `save`, which the next `save` removes.

        It is never averaged: otherwise a training that was interrupted would
        end with another average than one that was not.
        """
        self._write(self.path(step, "stop"), model, step, history)
        self._remove("stop", except_step=step)

    def restore_latest(self, model):
        """Sets a model and its optimizer to the latest valid checkpoint.

        A damaged one is skipped with a warning.

        Returns:
            Restored; step 0 without a checkpoint.

        Raises:
            InputError: a checkpoint is of another model, or all are damaged.
        """
        found = self._list()
        for step, kind in reversed(found):
            path = self.path(step, kind)
            arrays = _read(path)
            if arrays is not None:
                _assign(model, arrays, path)
                return Restored(step, json.loads(str(arrays[_HISTORY])))
        if found:
            raise InputError(
                f"All checkpoints in {self.folder} are damaged; remove the "
                "folder to start again."
            )
        return Restored(0, [])

    def restore_step(self, model, step):
        """Sets a model to one step; returns whether that was possible."""
        for path in (self.path(step, "best"), self.path(step)):
            arrays = _read(path) if path.exists() else None
            if arrays is not None:
                _assign(model, arrays, path)
                return True
        return False

    def load_average(self, model, count, first=0):
        """Sets the weights to the mean of checkpoints (section 6.1).

        Args:
            model: a model as in `save`; its optimizer is not changed.
            count: maximum number of checkpoints, the latest ones.
            first: step of the earliest that may be averaged.

        Returns:
            The steps of the averaged checkpoints.
        """
        used, sums = [], None
        for step in reversed(self.steps()):
            if len(used) == count or step < first:
                break
            arrays = _read(self.path(step))
            if arrays is None:
                continue
            weights = [
                arrays[name].astype(np.float64) for name, _ in _weights(model)
            ]
            sums = (
                weights
                if sums is None
                else [total + weight for total, weight in zip(sums, weights)]
            )
            used.append(step)
        for (_, variable), total in zip(_weights(model), sums or []):
            variable.assign((total / len(used)).astype(np.float32))
        return sorted(used)

    def _list(self):
        """Returns (step, kind) of each file, ascending."""
        if not self.folder.is_dir():
            return []
        matches = map(_FILE.fullmatch, (p.name for p in self.folder.iterdir()))
        return sorted((int(match[2]), match[1]) for match in matches if match)

    def _remove(self, kind, except_step=None):
        for step, found in self._list():
            if found == kind and step != except_step:
                self.path(step, kind).unlink()

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


def _weights(model):
    return [
        (f"weight/{number:04d}", variable)
        for number, variable in enumerate(model.weights)
    ]


def _named_variables(model):
    weights = _weights(model)
    known = {id(variable) for _, variable in weights}
    metrics = {id(v) for metric in model.metrics for v in metric.variables}
    others = [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in known | metrics
    ]
    return [
        *weights,
        *((f"state/{n:04d}", v) for n, v in enumerate(others)),
        *(
            (f"optimizer/{n:04d}", v)
            for n, v in enumerate(model.optimizer.variables)
        ),
    ]


def _read(path):
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        names = arrays.pop(_NAMES)
        if sorted(arrays) != names.tolist():
            raise ValueError("arrays are missing")
        return arrays
    # A damaged archive raises anything from BadZipFile to
    # NotImplementedError ("zip file version 10.9").
    except Exception as error:
        logging.warning("Skipping the damaged %s: %s", path, error)
        return None


def _assign(model, arrays, path):
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
