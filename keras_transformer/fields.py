"""Field types of a configuration, with their roles and limits."""

import dataclasses
import math

import numpy as np

ROLES = (
    # Weights and their computation; must match to initialize from another
    # model.
    "architecture",
    # Architecture fields that Table 3 at another scale multiplies.
    "width",
    # Fixed for all runs of a training.
    "training",
    # Length and end of a training: may change between its runs.
    "duration",
    # May always change.
    "decoding",
)

# Larger values exceed any memory, or make scores underflow float32.
MAX_BEAMS = 1_000
MAX_EXTRA_TOKENS = 100_000
MAX_ALPHA = 8.0

# Limits that keep values representable in int32 and float32.
LARGEST_INT = 2**31 - 1
SMALLEST_FLOAT, LARGEST_FLOAT = 1e-30, 1e30
BELOW_ONE = 0.999999


def validate_type(name, kind, value):
    """Returns a (NumPy) value as a Python one, or raises ValueError."""
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**53 else math.inf
    if type(value) is not kind:
        raise ValueError(f"{name} must be of type {kind.__name__}: {value!r}.")
    return value


def validate_range(name, value, least, most):
    """Returns a number of the type of `least`, or raises ValueError."""
    value = validate_type(name, type(least), value)
    if not least <= value <= most:
        raise ValueError(
            f"{name} must be from {least:,} to {most:,}, not {value!r}."
        )
    return value


def validate_choice(name, value, choices):
    """Returns a value that is one of the choices, or raises ValueError."""
    if value not in choices:
        raise ValueError(
            f"{name} must be {' or '.join(choices)}, not {value!r}."
        )
    return value


def _field(roles, default, validate):
    metadata = {"roles": roles.split(), "validate": validate}
    return dataclasses.field(default=default, metadata=metadata)


def int_field(roles, default, least=1, most=LARGEST_INT):
    """Returns a dataclass field for an int."""
    return _field(
        roles,
        default,
        lambda name, value: validate_range(name, value, least, most),
    )


def float_field(roles, default, least=0.0, most=LARGEST_FLOAT):
    """Returns a dataclass field for a float, 0 or at least 1e-30."""

    def validate(name, value):
        value = validate_range(name, value, least, most)
        if 0 < value < SMALLEST_FLOAT:
            raise ValueError(
                f"{name} must be 0 or at least {SMALLEST_FLOAT}, not {value}."
            )
        return value

    return _field(roles, default, validate)


def bool_field(roles, default):
    """Returns a dataclass field for a bool."""
    return _field(
        roles, default, lambda name, value: validate_type(name, bool, value)
    )


def choice_field(roles, default, *others):
    """Returns a dataclass field for a str, the default or one of the others."""
    choices = default, *others
    return _field(
        roles,
        default,
        lambda name, value: validate_choice(name, value, choices),
    )
