"""`--preset` and `--set name=value` to a TransformerConfig."""

import dataclasses

import keras_transformer as kt
from export.common.errors import InputError
from keras_transformer.presets import PRESETS

_KINDS = {
    field.name: field.type for field in dataclasses.fields(kt.TransformerConfig)
}
FIELDS = tuple(_KINDS)


def make_config(preset, assignments, **own):
    """Returns the configuration that the flags ask for.

    Args:
        preset: name of a preset.
        assignments: list of "name=value".
        **own: fields that have flags of their own, which come before them.

    Returns:
        TransformerConfig.

    Raises:
        InputError: an unknown preset or field, or a value out of range.
    """
    try:
        changes = parse_assignments(assignments) | own
        changes |= scale_cooldown(PRESETS.get(preset, {}), changes)
        return kt.TransformerConfig.preset(preset, **changes)
    except ValueError as error:
        raise InputError(str(error)) from error


def scale_cooldown(defaults, changes):
    """Returns a cooldown that fits, where the default one does not.

    Args:
        defaults: dict of fields, of a preset or a model.
        changes: dict of the fields that were asked for.

    Returns:
        A dict of `cooldown_steps`, the same share of the steps asked for; an
        empty one where the default fits or the cooldown itself was asked for.
    """
    steps, cooldown = changes.get("train_steps"), defaults.get("cooldown_steps")
    if "cooldown_steps" in changes or not cooldown or not steps:
        return {}
    if steps < 1 or cooldown <= steps:
        return {}
    share = cooldown / defaults["train_steps"]
    print(
        f"cooldown_steps={int(share * steps)}: those by default, {cooldown}, "
        f"do not fit into train_steps={steps}.",
        flush=True,
    )
    return {"cooldown_steps": int(share * steps)}


def format_assignments(config, preset):
    """Returns what makes a configuration of a preset.

    Args:
        config: TransformerConfig.
        preset: name of a preset.

    Returns:
        A list of "name=value", the fields in which the two differ.
    """
    there = dataclasses.asdict(kt.TransformerConfig.preset(preset))
    return [
        f"{name}={value}"
        for name, value in dataclasses.asdict(config).items()
        if there[name] != value
    ]


def validate_translator_config(config):
    """Refuses what only parsers have: a source vocabulary, counted words.

    Args:
        config: TransformerConfig.

    Raises:
        InputError: it has one of them.
    """
    size = config.source_vocabulary_size
    if size:
        raise InputError(
            f"source_vocabulary_size={size} is a source vocabulary of its own, "
            "but trainers.wmt makes one vocabulary for both languages; leave "
            "source_vocabulary_size out, or set it to 0."
        )
    if config.counts_words:
        raise InputError(
            f"positions={config.positions} is of parsers, which say one tag "
            "for each word; use trainers.parsing, or "
            "--set=positions=sinusoidal."
        )


def parse_assignments(assignments):
    """Returns what "name=value" texts say, a dict of the fields they name.

    Raises:
        InputError: an unknown field, or a value of another type.
    """
    return dict(map(_parse, assignments))


def _parse(assignment):
    name, equals, text = assignment.partition("=")
    if not equals:
        raise InputError(
            f"--set={assignment} must be name=value, such as --set=dropout=0."
        )
    if name not in _KINDS:
        raise InputError(
            f"--set={assignment}: there is no field {name!r}; there are: "
            f"{', '.join(FIELDS)}."
        )
    try:
        return name, _value(_KINDS[name], text)
    except ValueError:
        raise InputError(
            f"--set={assignment}: {name} must be of type "
            f"{_KINDS[name].__name__}."
        ) from None


def _value(kind, text):
    if kind is not bool:
        return kind(text)
    words = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]
