"""Configures, trains and formats rows of Table 3, and the user's own rows."""

import dataclasses
import os
import pathlib
import re
import shlex
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras_transformer as kt
from export.common.command import command_line
from export.common.errors import InputError
from export.common.progress_bar import format_duration
from export.model_directory import ModelDirectory
from keras_transformer.config import field_names
from keras_transformer.presets import PRESETS
from trainers.reports.results_page import hide_folders, markdown_table
from trainers.training import config_flags

# By preset, in the table's order: perplexity per token and compound-split BLEU
# on newstest2013, and millions of parameters, None if the table omits them.
TABLE_3 = {
    "base": (4.92, 25.8, 65),
    "A1": (5.29, 24.9, None),
    "A4": (5.00, 25.5, None),
    "A16": (4.91, 25.8, None),
    "A32": (5.01, 25.4, None),
    "B16": (5.16, 25.1, 58),
    "B32": (5.01, 25.4, 60),
    "C-n2": (6.11, 23.7, 36),
    "C-n4": (5.19, 25.3, 50),
    "C-n8": (4.88, 25.5, 80),
    "C-d256": (5.75, 24.5, 28),
    "C-d1024": (4.66, 26.0, 168),
    "C-ff1024": (5.12, 25.4, 53),
    "C-ff4096": (4.75, 26.2, 90),
    "D-drop0": (5.77, 24.6, None),
    "D-drop2": (4.95, 25.5, None),
    "D-ls0": (4.67, 25.3, None),
    "D-ls2": (5.47, 25.7, None),
    "E-learned": (4.92, 25.7, None),
    "big": (4.33, 26.4, 213),
}
# The table's columns.
_FIELDS = {
    "N": "num_layers",
    "d_model": "d_model",
    "d_ff": "d_ff",
    "h": "num_heads",
    "d_k": "d_k",
    "d_v": "d_v",
    "P_drop": "dropout",
    "ε_ls": "label_smoothing",
    "steps": "train_steps",
}
_COLUMNS = (
    *("row", *_FIELDS, "PPL (dev)", "BLEU (dev)", "95 % interval"),
    *("params ×10⁶", "training"),
    *("paper: PPL", "paper: BLEU", "paper: params ×10⁶"),
)
# Fields that no row may set, and the hint for the error message.
_SHARED = {
    "train_steps": "use --train_steps",
    "average_checkpoints": "the last weights are scored",
}
# Flags of trainers.wmt for the paper's vocabulary and data.
_PAPER_DATA = ("--byte_fallback=off", "--copy_rate=0", "--noise=off")


class Table3Row(typing.NamedTuple):
    """A row's configuration, also as "field=value" changes of base."""

    name: str
    config: kt.TransformerConfig
    assignments: list[str]


def make_table3_rows(
    names: Iterable[str],
    own: Iterable[str],
    common: Sequence[str],
    scale: float,
    train_steps: int,
) -> list[Table3Row]:
    """Returns the rows, base first.

    `names` are rows of the paper, `own` the user's rows as
    "name:field=value,field=value", and `common` has "field=value" for all rows,
    which a row's own fields override. `scale` multiplies the widths.
    """
    # All rows have the same budget, so its fields are excluded.
    changes, budget = {}, field_names("duration")
    for name in ["base", *names]:
        if name not in TABLE_3:
            raise InputError(
                f"Table 3 has no row {name!r}; its rows are "
                f"{', '.join(TABLE_3)}."
            )
        changes[name] = [
            f"{field}={value}"
            for field, value in PRESETS[name].items()
            if PRESETS["base"].get(field) != value and field not in budget
        ]
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
    shared = [f"train_steps={train_steps}", "average_checkpoints=0"]
    return [
        _make_row(name, [*common, *assignments, *shared], scale)
        for name, assignments in changes.items()
    ]


def _validate_fields(assignments):
    for assignment in assignments:
        field, _, _ = assignment.partition("=")
        if field in _SHARED:
            raise InputError(
                f"{field} is the same for all rows; {_SHARED[field]}."
            )


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
    changes = config_flags.format_assignments(config, "base")
    return Table3Row(name, config, changes)


class Table3Runs:
    """Trains and scores rows, each in `rows/NAME` of a folder, on one data set.

    `run` is a function of a command's module and flags that returns the exit
    code.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        data_flags: list[str],
        training_flags: list[str],
        scoring_flags: list[str],
        run: Callable[[str, list[str]], int],
    ):
        self._folder = pathlib.Path(folder)
        self._data_flags = data_flags
        self._training_flags = training_flags
        self._scoring_flags = scoring_flags
        self._run = run

    def read_score(self, row: Table3Row) -> dict[str, typing.Any] | None:
        """Returns the scores.json entry of a finished row, otherwise None.

        InputError if the row was trained with other flags of trainers.wmt.
        """
        directory = ModelDirectory(self._path(row))
        is_trained = directory.config_path.exists()
        if not is_trained or directory.read_config() != row.config:
            return None
        command = command_line("trainers.evaluate", *self._evaluate_flags(row))
        for record in reversed(directory.read_scores()):
            key = record.get("step"), record.get("command")
            if key == (row.config.train_steps, command):
                self._validate_training(row, record["training"])
                return record
        return None

    def _validate_training(self, row, training):
        last_flags = shlex.join([*_PAPER_DATA, *self._training_flags])
        if training and not training["command"].endswith(f" {last_flags}"):
            raise InputError(
                f"Row {row.name} was trained with other --wmt_flag "
                f"({training['command']}); restore them, or use another "
                "--output_dir."
            )

    def train_and_score(self, row: Table3Row) -> int:
        """Trains and scores a row, or resumes; returns the exit code."""
        flags = [
            *self._data_flags,
            f"--model_dir={self._path(row)}",
            "--preset=base",
            *(f"--set={assignment}" for assignment in row.assignments),
            f"--prepared_dir={self._folder / 'data'}",
            "--noscore",
            *_PAPER_DATA,
            *self._training_flags,
        ]
        code = self._run("trainers.wmt", flags)
        if code:
            return code
        return self._run("trainers.evaluate", self._evaluate_flags(row))

    def _evaluate_flags(self, row):
        return [
            *self._data_flags,
            f"--model_dir={self._path(row)}",
            "--split=dev",
            *self._scoring_flags,
        ]

    def _path(self, row):
        return self._folder / "rows" / row.name


def make_table3_page(
    rows: Sequence[Table3Row],
    scores: Mapping[str, dict[str, typing.Any]],
    scale: float,
) -> str:
    """Returns Table 3; values equal to base's are blank, as in the paper.

    `scores` has the entry of scores.json by each finished row's name.
    """
    base = rows[0].config
    base_values = _field_values(base)
    lines = []
    for row in rows:
        values = _field_values(row.config)
        if row is not rows[0]:
            pairs = zip(values, base_values)
            values = ["" if value == other else value for value, other in pairs]
        label = row.name + _other_fields(row.config, base)
        lines.append([label, *values, *_score_columns(row, scores)])
    description = _describe_runs(base, scores, scale)
    table = markdown_table(_COLUMNS, lines)
    return f"# Table 3 at scale {scale:g}\n\n{description}\n\n{table}\n"


def _field_values(config):
    values = [f"{getattr(config, field):g}" for field in _FIELDS.values()]
    if config.decoder_layers != config.num_layers:
        values[0] += f" + {config.decoder_layers}"
    return values


def _other_fields(config, base):
    shown = {*_FIELDS.values(), "num_decoder_layers"}
    others = [
        f"{field}={value}"
        for field, value in dataclasses.asdict(config).items()
        if field not in shown and value != getattr(base, field)
    ]
    return f" ({', '.join(others)})" if others else ""


def _score_columns(row, scores):
    """Returns the cells of a row's scores, then of the paper's."""
    measured, paper = ["not yet", "", "", "", ""], ["", "", ""]
    if row.name in scores:
        record = scores[row.name]
        training = record["training"]
        measured = [
            f"{record['perplexity']['per_token']:.2f}",
            f"{record['score']:.2f}",
            "{:.2f} to {:.2f}".format(*record["confidence_95"]),
            f"{record['parameters'] / 1e6:.2f}",
            format_duration(training["seconds"]) if training else "",
        ]
    if row.name in TABLE_3:
        perplexity, bleu, parameters = TABLE_3[row.name]
        paper = [f"{perplexity:.2f}", f"{bleu:.1f}", str(parameters or "")]
    return [*measured, *paper]


def _describe_runs(base, scores, scale):
    records = list(scores.values())
    hardware = [
        (record["training"] or record)["hardware"] for record in records
    ]
    facts = records[0] | {
        "dataset": hide_folders(records[0]["dataset"]),
        "hardware": "; ".join(dict.fromkeys(hardware)),
        "date": records[-1]["date"],
    }
    data = (
        "Data: {dataset}, {source_language} to {target_language}, split "
        "{split}, {sentences:,} sentences; beam {beam_size}, α {alpha:g}; BLEU "
        "`{signature}`; intervals `{bootstrap}`; on {hardware}; {date}."
    )
    return (
        f"Every row has d_model, d_ff, d_k and d_v times {scale:g} and the "
        f"same budget: {base.train_steps:,} updates of {base.batch_tokens:,} "
        f"positions a side, warm-up {base.warmup_steps:,}, a vocabulary of "
        f"{base.vocabulary_size:,} tokens, no checkpoint averaging, one seed.\n"
        "The paper's columns are newstest2013, English to German, at full "
        "size: 100,000 updates (big 300,000) of 25,000 tokens, a vocabulary "
        "of 37,000, compound-split BLEU. Compare directions, not figures.\n"
        "PPL is un-smoothed and per token of the vocabulary.\n"
    ) + data.format_map(facts)
