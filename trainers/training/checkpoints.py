"""Checkpoints: all that a training needs to go on as if never stopped.

A checkpoint is one file, `step-00001000.npz`, written whole or not at all:
the model's variables (random states of dropout among them), the optimizer's,
the measures of the dev split so far, and the step, from which the place in the
data follows. Its zip format holds a checksum of every array. The best of dev so
far may lie beside the latest ones, as `best-00000750.npz`, and what a signal
stopped, as `stop-00000813.npz`.
"""

import json
import pathlib
import re
import typing

import numpy as np
from absl import logging

from export.common.atomic_files import atomic_write, remove_temporary_files
from export.common.errors import InputError

# Checksums cover the arrays and not what the archive calls them.
_NAMES = "names"
_HISTORY = "history"
_FILE = re.compile(r"(step|best|stop)-(\d{8,})\.npz")


class Restored(typing.NamedTuple):
    """Where a training resumes.

    Attributes:
        step: updates made.
        history: measures of the dev split so far, list of dict.
    """

    step: int
    history: list


def divergence_error(what):
    """Returns the InputError of a training that diverged.

    Args:
        what: is infinite or no number, such as "The loss of step 7".
    """
    return InputError(
        f"{what} is not a finite number: training diverged. The earlier "
        "checkpoints are kept; begin anew with a lower learning_rate_scale or "
        "more warmup_steps, in another --model_dir."
    )


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: where they lie; it need not exist yet.
        keep: how many of the latest are kept.
    """

    def __init__(self, folder, keep):
        self.folder = pathlib.Path(folder)
        self.keep = keep

    def steps(self):
        """Returns the steps that are kept as the latest, ascending."""
        return [step for step, kind in self._found() if kind == "step"]

    def path(self, step):
        """Returns the file of one of the latest steps."""
        return self._path(step, "step")

    def best_path(self, step):
        """Returns the file of the step that was the best of dev."""
        return self._path(step, "best")

    def stop_path(self, step):
        """Returns the file of the step that a signal stopped training at."""
        return self._path(step, "stop")

    def save(self, model, step, history=()):
        """Writes a checkpoint and removes those that are of no more use.

        Args:
            model: a compiled model with its optimizer built.
            step: number of updates made.
            history: measures of the dev split so far, list of dict of
                numbers.

        Raises:
            InputError: the system refused to write, or a value is infinite or
                no number; earlier checkpoints are untouched.
        """
        self._write(self.path(step), model, step, history)
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink()
        self._remove("stop")

    def save_best(self, model, step, history):
        """Writes a checkpoint that stays until a better one takes its place.

        Args:
            model: as for `save`.
            step: as for `save`.
            history: as for `save`; its last measure is the best.

        Raises:
            InputError: as for `save`.
        """
        self._write(self.best_path(step), model, step, history)
        self._remove("best", all_but=step)

    def save_stop(self, model, step, history):
        """Writes a checkpoint to go on from, until the next is saved.

        It is none of those that are averaged, or a training that was stopped
        would end with another average than one that was not.

        Args:
            model: as for `save`.
            step: as for `save`.
            history: as for `save`.

        Raises:
            InputError: as for `save`.
        """
        self._write(self.stop_path(step), model, step, history)
        self._remove("stop", all_but=step)

    def restore_latest(self, model):
        """Sets a model and its optimizer to the latest whole checkpoint.

        A damaged one is passed over with a warning.

        Args:
            model: as given to `save`.

        Returns:
            Restored; step 0 when there is no checkpoint.

        Raises:
            InputError: a checkpoint is of another model, or all are damaged.
        """
        found = self._found()
        for step, kind in reversed(found):
            path = self._path(step, kind)
            arrays = _read(path)
            if arrays is not None:
                _assign(model, arrays, path)
                return Restored(step, json.loads(str(arrays[_HISTORY])))
        if found:
            raise InputError(
                f"All checkpoints in {self.folder} are damaged; remove the "
                "folder to begin anew."
            )
        return Restored(0, [])

    def use(self, model, step):
        """Sets a model and its optimizer to one step.

        Args:
            model: as given to `save`.
            step: number of updates.

        Returns:
            Whether there is a whole checkpoint of that step.
        """
        for path in (self.best_path(step), self.path(step)):
            arrays = _read(path) if path.exists() else None
            if arrays is not None:
                _assign(model, arrays, path)
                return True
        return False

    def average(self, model, count, first=0):
        """Sets a model to the mean of its latest checkpoints (section 6.1).

        Args:
            model: as given to `save`; its optimizer is left alone.
            count: how many, at most.
            first: step of the earliest that may go in.

        Returns:
            The steps of the checkpoints that went in.
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

    def _found(self):
        """Returns (step, kind) of each file, ascending."""
        if not self.folder.is_dir():
            return []
        matches = map(_FILE.fullmatch, (p.name for p in self.folder.iterdir()))
        return sorted((int(match[2]), match[1]) for match in matches if match)

    def _remove(self, kind, all_but=None):
        for step, found in self._found():
            if found == kind and step != all_but:
                self._path(step, kind).unlink()

    def _path(self, step, kind):
        return self.folder / f"{kind}-{step:08d}.npz"

    def _write(self, path, model, step, history):
        arrays = {name: variable.numpy() for name, variable in _named(model)}
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


def _named(model):
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
            raise ValueError("its list of arrays is not its own")
        return arrays
    # What a damaged archive raises is anything between BadZipFile and
    # NotImplementedError ("zip file version 10.9").
    except Exception as error:
        logging.warning("Passing over the damaged %s: %s", path, error)
        return None


def _assign(model, arrays, path):
    named = _named(model)
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
