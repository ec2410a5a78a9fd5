"""Trains and scores rows one after the other, and goes on where it stopped."""

import json
import pathlib
import shlex

import keras_transformer as kt
from export.command import InputError


class Runs:
    """The rows' model directories, `rows/NAME`, and one set of data for all.

    Args:
        folder: where everything goes.
        data: list of flags that name the data set.
        training: list of further flags of trainers.wmt.
        scoring: list of further flags of trainers.evaluate.
        run: function of a command's module and its flags, that returns its
            exit code.
    """

    def __init__(self, folder, data, training, scoring, run):
        self._folder = pathlib.Path(folder)
        self._data = data
        self._training_flags = training
        self._scoring_flags = scoring
        self._run = run

    def score(self, row):
        """Returns a finished row's entry of scores.json, else None.

        Args:
            row: Row.

        Raises:
            InputError: its files are damaged.
        """
        path = self._path(row)
        # Not as JSON: fields that came later have their defaults there.
        parse = kt.TransformerConfig.from_json
        if _read(path / "config.json", None, parse) != row.config:
            return None
        command = ["python", "-m", "trainers.evaluate", *self._scoring(row)]
        command = shlex.join(command)
        found = [
            record
            for record in _read(path / "scores.json", [])
            if record.get("step") == row.config.train_steps
            and record.get("command") == command
        ]
        return found[-1] if found else None

    def finish(self, row):
        """Trains and scores a row, as far as it is not done.

        Args:
            row: Row.

        Returns:
            0, or the exit code of the command that did not end well.
        """
        return self._run("trainers.wmt", self._training(row)) or self._run(
            "trainers.evaluate", self._scoring(row)
        )

    def _training(self, row):
        return [
            *self._data,
            f"--model_dir={self._path(row)}",
            "--preset=base",
            *(f"--set={each}" for each in row.assignments),
            f"--prepared_dir={self._folder / 'data'}",
            "--noscore",
            *self._training_flags,
        ]

    def _scoring(self, row):
        return [
            *self._data,
            f"--model_dir={self._path(row)}",
            "--split=dev",
            *self._scoring_flags,
        ]

    def _path(self, row):
        return self._folder / "rows" / row.name


def _read(path, default, parse=json.loads):
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); remove that row's folder to "
            "train it again."
        ) from error
