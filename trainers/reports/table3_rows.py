"""Configures and trains the rows of Table 3, and rows of the user."""

import json
import pathlib
import re
import typing

import keras_transformer as kt
from export.common.command import command_line
from export.common.errors import InputError
from keras_transformer.config import field_names
from keras_transformer.presets import PRESETS
from trainers.reports.published_scores import TABLE_3
from trainers.training import config_flags

# Fields that no row may set, and the hint for the error message.
_SHARED = {
    "train_steps": "use --train_steps",
    "average_checkpoints": "the last weights are scored",
}


class Table3Row(typing.NamedTuple):
    """Name and TransformerConfig of a row.

    `assignments` is the configuration as a list of "field=value" for preset
    base.
    """

    name: str
    config: kt.TransformerConfig
    assignments: list


def make_table3_rows(names, own, common, scale, train_steps):
    """Returns the rows as a list of Table3Row, base first.

    `names` are rows of the paper, `own` the user's rows as
    "name:field=value,field=value", differences from base, and `common` a list
    of "field=value" for all rows, which `own` overrides. `scale` is the factor
    on d_model, d_ff, d_k and d_v, not on the heads.

    Raises:
        InputError: a name is unknown or repeated, or a value is invalid.
    """
    changes = {}
    for name in ["base", *names]:
        if name not in TABLE_3:
            raise InputError(
                f"Table 3 has no row {name!r}; its rows are "
                f"{', '.join(TABLE_3)}."
            )
        changes[name] = _paper_changes(name)
    for text in own:
        name, colon, fields = text.partition(":")
        if not colon or not re.fullmatch(r"\w[\w.-]*", name) or not fields:
            raise InputError(
                f"Expected --own=name:field=value,field=value, such as "
                f"pre-norm:norm=pre, got {text!r}."
            )
        if name in changes or name in TABLE_3:
            raise InputError(
                f"--own={text} repeats the name of row {name!r}; use another."
            )
        changes[name] = fields.split(",")
        _validate_fields(changes[name])
    _validate_fields(common)
    budget = [f"train_steps={train_steps}", "average_checkpoints=0"]
    return [
        _make_row(name, [*common, *each, *budget], scale)
        for name, each in changes.items()
    ]


def _validate_fields(assignments):
    for field in (text.partition("=")[0] for text in assignments):
        if field in _SHARED:
            raise InputError(
                f"{field} is the same for all rows; {_SHARED[field]}."
            )


def _paper_changes(name):
    base = PRESETS["base"]
    # All rows have the same budget, so its fields are excluded.
    budget = field_names("duration")
    return [
        f"{field}={value}"
        for field, value in PRESETS[name].items()
        if base.get(field) != value and field not in budget
    ]


def _make_row(name, assignments, scale):
    config = config_flags.make_config("base", assignments)
    config_flags.validate_translator_config(config)
    widths = {
        field: round(scale * getattr(config, field))
        for field in field_names("width")
    }
    try:
        config = config.replace(**widths)
    except ValueError as error:
        raise InputError(
            f"Row {name} is invalid at scale {scale:g}: {error}"
        ) from error
    return Table3Row(
        name, config, config_flags.format_assignments(config, "base")
    )


class Table3Runs:
    """Trains and scores rows, each in `rows/NAME` of a folder, on one data set.

    The flags are lists of str: those that name the data set, and more for
    trainers.wmt and for trainers.evaluate. `run` is a function of a command's
    module and its flags that returns its exit code.
    """

    def __init__(self, folder, data_flags, training_flags, scoring_flags, run):
        self._folder = pathlib.Path(folder)
        self._data_flags = data_flags
        self._training_flags = training_flags
        self._scoring_flags = scoring_flags
        self._run = run

    def read_score(self, row):
        """Returns the scores.json entry of a finished row, otherwise None."""
        path = self._path(row)
        parse = kt.TransformerConfig.from_json
        if _read(path / "config.json", parse, None) != row.config:
            return None
        command = command_line("trainers.evaluate", *self._evaluate_flags(row))
        records = _read(path / "scores.json", json.loads, [])
        for record in reversed(records):
            key = record.get("step"), record.get("command")
            if key == (row.config.train_steps, command):
                return record
        return None

    def train_and_score(self, row):
        """Trains and scores a row, or resumes; returns the exit code."""
        training = [
            *self._data_flags,
            f"--model_dir={self._path(row)}",
            "--preset=base",
            *(f"--set={each}" for each in row.assignments),
            f"--prepared_dir={self._folder / 'data'}",
            "--noscore",
            *self._training_flags,
        ]
        return self._run("trainers.wmt", training) or self._run(
            "trainers.evaluate", self._evaluate_flags(row)
        )

    def _evaluate_flags(self, row):
        model_dir = f"--model_dir={self._path(row)}"
        flags = [*self._data_flags, model_dir, "--split=dev"]
        return [*flags, *self._scoring_flags]

    def _path(self, row):
        return self._folder / "rows" / row.name


def _read(path, parse, default):
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"Cannot read {path} ({error}); remove that row's folder to "
            "train it again."
        ) from error
