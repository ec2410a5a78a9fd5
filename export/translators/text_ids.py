"""Limits, validation and padding of text and ids, without TensorFlow."""

import typing

import numpy as np

from export.common.errors import InputError

# Far above real text. A run of unknown characters is one token of any length,
# and the tokenizer's time grows with its square.
_CHARACTERS_PER_TOKEN = 64


def truncation_limit(config, max_tokens):
    """Returns `max_tokens`, or the number of learned positions if lower."""
    if config.positions == "learned":
        return min(max_tokens, config.max_positions)
    return max_tokens


def character_limit(max_tokens):
    """Returns the maximum number of characters of `max_tokens` tokens."""
    return _CHARACTERS_PER_TOKEN * max_tokens


class UnknownCharacter(ValueError):
    """A prefix, `prefixes[index]`, has a `character` that no token covers."""

    def __init__(self, index, character):
        super().__init__(
            f"prefixes[{index}] has {character!r} (U+{ord(character):04X}), "
            "which the vocabulary lacks; omit it."
        )
        self.index = index
        self.character = character


class IdPair(typing.NamedTuple):
    """Source and target ids, int32 [S] and [T], with their end ids."""

    source: np.ndarray
    target: np.ndarray
    source_truncated: bool
    target_truncated: bool = False

    @property
    def length(self):
        """Number of ids of the longer side; 1 if the source is blank."""
        if len(self.source) == 1:
            return 1
        return max(len(self.source), len(self.target))


def pad_ids(rows, width=None):
    """Returns int arrays as one int32 [B, width], padded at the end."""
    width = width or max(map(len, rows))
    matrix = np.zeros((len(rows), width), np.int32)
    for row, ids in zip(matrix, rows):
        row[: len(ids)] = ids
    return matrix


def list_of_texts(texts, name="texts"):
    """Returns an iterable of str as a list, after validation.

    `name` is the argument, for messages. Raises InputError for a single text,
    or for an item that is not a str of Unicode characters.
    """
    if isinstance(texts, (str, bytes)):
        raise InputError(f"Expected a list of texts as {name}, got one text.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"Expected a str as {name}[{index}], got {type(text).__name__}."
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{name}[{index}] has a lone surrogate, which is no "
                "character; read the text as UTF-8."
            ) from error
    return texts
