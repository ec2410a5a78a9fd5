"""Makes a TransformerConfig from --preset and --set=name=value."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping

import keras_transformer as kt
from export.common.errors import InputError

_FIELD_TYPES = {
    field.name: field.type for field in dataclasses.fields(kt.TransformerConfig)
}
FIELD_NAMES = tuple(_FIELD_TYPES)


def make_config(
    preset: str, assignments: Iterable[str], **overrides: typing.Any
) -> kt.TransformerConfig:
    """Returns the TransformerConfig of a preset with "name=value" changes.

    The overrides, fields that have their own flags, take precedence. InputError
    if the preset or a field is unknown, or a value is out of range.
    """
    changes = parse_assignments(assignments) | overrides
    try:
        defaults = kt.TransformerConfig.preset(preset)
    except ValueError as error:
        raise InputError(str(error)) from error
    return change_config(defaults, changes)


def change_config(
    config: kt.TransformerConfig, changes: Mapping[str, typing.Any]
) -> kt.TransformerConfig:
    """Returns a TransformerConfig with a dict of changes by flags.

    If its cooldown does not fit into fewer `train_steps`, it becomes the same
    fraction of them. InputError if a value is out of range.
    """
    cooldown = config.cooldown_steps
    steps = changes.get("train_steps", cooldown)
    if "cooldown_steps" not in changes and 1 <= steps < cooldown:
        scaled = int(cooldown / config.train_steps * steps)
        print(
            f"cooldown_steps={scaled}: the default, {cooldown}, does not fit "
            f"into train_steps={steps}.",
            flush=True,
        )
        changes = {**changes, "cooldown_steps": scaled}
    try:
        return config.replace(**changes)
    except ValueError as error:
        raise InputError(str(error)) from error


def format_assignments(config: kt.TransformerConfig, preset: str) -> list[str]:
    """Returns "name=value" of the fields that differ from the preset."""
    defaults = dataclasses.asdict(kt.TransformerConfig.preset(preset))
    return [
        f"{name}={value}"
        for name, value in dataclasses.asdict(config).items()
        if defaults[name] != value
    ]


def validate_translator_config(config: kt.TransformerConfig) -> None:
    """Raises InputError if fields for parsers are set."""
    if config.source_vocabulary_size:
        raise InputError(
            f"source_vocabulary_size={config.source_vocabulary_size} is for "
            "parsers: translations have one vocabulary; drop it."
        )
    if config.uses_word_positions:
        raise InputError(
            f"positions={config.positions} is for parsers; use "
            "trainers.parsing, or --set=positions=sinusoidal."
        )


def parse_assignments(assignments: Iterable[str]) -> dict[str, typing.Any]:
    """Parses "name=value" strings into a dict."""
    return dict(map(_parse_assignment, assignments))


def _parse_assignment(assignment):
    name, equals, text = assignment.partition("=")
    if not equals:
        raise InputError(
            "Expected --set=name=value, such as --set=dropout=0, got "
            f"--set={assignment}."
        )
    if name not in _FIELD_TYPES:
        raise InputError(
            f"--set={assignment}: there is no field {name!r}; the fields are "
            f"{', '.join(FIELD_NAMES)}."
        )
    try:
        return name, _parse_value(_FIELD_TYPES[name], text)
    except ValueError:
        raise InputError(
            f"--set={assignment}: {name} must be of type "
            f"{_FIELD_TYPES[name].__name__}."
        ) from None


def _parse_value(field_type, text):
    if field_type is not bool:
        return field_type(text)
    booleans = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in booleans:
        raise ValueError(text)
    return booleans[text.lower()]
