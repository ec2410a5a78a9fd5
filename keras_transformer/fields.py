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
_SMALLEST_FLOAT, LARGEST_FLOAT = 1e-30, 1e30
_BELOW_ONE = 1 - 2**-20


def _is_zero_or_more(value):
    return value == 0 or value >= _SMALLEST_FLOAT


# Each limit is (description, validity function).
_AMOUNT = (
    f"at least 0, and {_SMALLEST_FLOAT:g} or more if above",
    _is_zero_or_more,
)
_AT_LEAST_ZERO = ("at least 0", lambda value: value >= 0)
_AT_LEAST_ONE = ("at least 1", lambda value: value >= 1)
_ABOVE_ZERO = (
    f"above 0, and at least {_SMALLEST_FLOAT:g}",
    lambda value: value >= _SMALLEST_FLOAT,
)
_PROBABILITY = (
    "at least 0 and below 1, by a millionth or more",
    lambda value: _is_zero_or_more(value) and value <= _BELOW_ONE,
)
_FINITE = (
    f"finite, and at most {LARGEST_FLOAT:g}",
    lambda value: value <= LARGEST_FLOAT,
)
_VOCABULARY = (
    "at least 5 (pad, unknown, begin, end and one token)",
    lambda value: value >= 5,
)
_VOCABULARY_OR_ZERO = (
    f"0, or {_VOCABULARY[0]}",
    lambda value: value == 0 or value >= 5,
)


def _at_most(most=LARGEST_INT):
    return (f"at most {most:,}", lambda value: value <= most)


def checked_type(name, kind, value):
    """Returns a (NumPy) value as a Python one, or raises ValueError."""
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**53 else math.inf
    if type(value) is not kind:
        raise ValueError(f"{name} must be of type {kind.__name__}: {value!r}.")
    return value


def _field(default, limits, *roles):
    metadata = {"limits": limits, "roles": roles}
    return dataclasses.field(default=default, metadata=metadata)


def vocabulary(role):
    """Returns a required field for a vocabulary size."""
    return _field(dataclasses.MISSING, [_VOCABULARY, _at_most()], role)


def vocabulary_or_zero(role):
    """Returns a field for a vocabulary size; the default is 0."""
    return _field(0, [_VOCABULARY_OR_ZERO, _at_most()], role)


def count(role, default, most=LARGEST_INT):
    """Returns a field for an int, at least 1."""
    return _field(default, [_AT_LEAST_ONE, _at_most(most)], role)


def count_or_zero(role, default, most=LARGEST_INT):
    """Returns a field for an int, at least 0."""
    return _field(default, [_AT_LEAST_ZERO, _at_most(most)], role)


def width(default):
    """Returns a field for a width of the architecture."""
    return _field(default, [_AT_LEAST_ONE, _at_most()], "architecture", "width")


def amount(role, default, most=LARGEST_FLOAT):
    """Returns a field for a float, at least 0."""
    return _field(default, [_AMOUNT, _FINITE, _at_most(most)], role)


def positive(role, default):
    """Returns a field for a float above 0."""
    return _field(default, [_ABOVE_ZERO, _FINITE], role)


def probability(role, default):
    """Returns a field for a float in [0, 1)."""
    return _field(default, [_PROBABILITY], role)


def switch(role, default):
    """Returns a field for a bool."""
    return _field(default, [], role)


def choice(role, default, *others):
    """Returns a field for a str with fixed choices, the default first."""
    names = (default, *others)
    limit = (" or ".join(names), lambda value: value in names)
    return _field(default, [limit], role)
