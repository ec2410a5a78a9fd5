"""The rows of Table 3, and a user's own: configurations and runs."""

import itertools
import json
import pathlib
import re
import typing

import keras_transformer as kt
from export.command import command_line
from export.errors import InputError
from keras_transformer.config import field_names
from keras_transformer.presets import PRESETS
from trainers import settings
from trainers.reports.published_scores import PAPER

# Fields that no row has a value of its own for, and what there is instead.
_BUDGET = {
    "train_steps": "give --train_steps",
    "average_checkpoints": "their last weights are scored",
}


class Row(typing.NamedTuple):
    """One row.

    Attributes:
        name: of the paper's row (a preset), or the user's.
        config: TransformerConfig it is trained with.
        assignments: list of "field=value" that make it of preset base.
    """

    name: str
    config: kt.TransformerConfig
    assignments: list


def make_rows(names, own, common, scale, train_steps):
    """Returns the rows, base first.

    Args:
        names: of the paper's rows, list of str.
        own: further rows, list of "name:field=value,field=value": what
            differs from base.
        common: list of "field=value" for all rows; a row's own values come
            before them.
        scale: factor on d_model, d_ff, d_k and d_v; heads stay as they are.
        train_steps: updates of each row.

    Returns:
        A list of Row.

    Raises:
        InputError: a name or a value is not possible, or a name is there
            twice.
    """
    for name in names:
        if name not in PAPER:
            raise InputError(
                f"Table 3 has no row {name!r}; its rows are {', '.join(PAPER)}."
            )
    differences = {name: _of_the_paper(name) for name in ["base", *names]}
    for text in (*common, *itertools.chain(*map(_fields, own))):
        field = text.partition("=")[0]
        if field in _BUDGET:
            raise InputError(
                f"{field} is the same for all rows: {_BUDGET[field]}."
            )
    for text in own:
        name, assignments = _parse(text)
        if name in differences or name in PAPER:
            raise InputError(
                f"--own={text}: there is another row {name!r}; call it "
                "something else."
            )
        differences[name] = assignments
    budget = [f"train_steps={train_steps}", "average_checkpoints=0"]
    return [
        _row(name, [*common, *each, *budget], scale)
        for name, each in differences.items()
    ]


def _of_the_paper(name):
    base = PRESETS["base"]
    # What makes a row differ from base is the model, not how long it trains.
    ending = field_names("ending")
    return [
        f"{field}={value}"
        for field, value in PRESETS[name].items()
        if base.get(field) != value and field not in ending
    ]


def _fields(text):
    return text.partition(":")[2].split(",")


def _parse(text):
    name, colon, fields = text.partition(":")
    if not colon or not re.fullmatch(r"\w[\w.-]*", name) or not fields:
        raise InputError(
            f"--own={text} must be name:field=value,field=value, such as "
            "pre-norm:norm=pre."
        )
    return name, _fields(text)


def _row(name, assignments, scale):
    config = settings.make_config("base", assignments)
    settings.refuse_parser_fields(config)
    widths = {
        n: round(scale * getattr(config, n)) for n in field_names("width")
    }
    try:
        config = config.replace(**widths)
    except ValueError as error:
        raise InputError(
            f"Row {name} cannot be made at scale {scale:g}: {error}"
        ) from error
    return Row(name, config, settings.assignments_of(config, "base"))


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
        command = command_line("trainers.evaluate", *self._scoring(row))
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
