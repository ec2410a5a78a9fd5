"""Text as ids: how long it may be, and how batches of it are padded."""

import typing

import numpy as np

from export.common.errors import InputError

# Those of keras_transformer.fields, without Keras, which commands load later
# or not at all.
MAX_BEAMS, MAX_EXTRA, MAX_ALPHA = 1_000, 100_000, 8.0

# Far more than text has: a run of unknown characters is one piece of any
# length, and takes the tokenizer time that grows with its square.
_CHARACTERS_OF_A_PIECE = 64


def source_limit(config, asked):
    """Returns how many ids of a source are kept, the end id counted.

    Args:
        config: TransformerConfig.
        asked: the limit asked for.

    Returns:
        That limit, or the number of learned positions when it is lower.
    """
    if config.positions == "learned":
        return min(asked, config.max_positions)
    return asked


def character_limit(tokens):
    """Returns how many characters of a text are looked at.

    Args:
        tokens: how many ids of it are kept.
    """
    return _CHARACTERS_OF_A_PIECE * tokens


class UnknownCharacter(ValueError):
    """A prefix has what no translation can begin with.

    Attributes:
        place: of the prefix in its list, from 0.
        character: str, the first of which the vocabulary has no piece.

    Args:
        place: see above.
        character: see above.
    """

    def __init__(self, place, character):
        super().__init__(
            f"prefixes[{place}] has {character!r} (U+{ord(character):04X}), "
            "of which the vocabulary has no piece; leave it out."
        )
        self.place = place
        self.character = character


class IdPair(typing.NamedTuple):
    """A source and a target, each ending with the end id.

    Attributes:
        source: int32 [S].
        target: int32 [T].
        source_truncated: whether the source was longer than the model takes.
        target_is_cut: the same of a target that was given.
    """

    source: np.ndarray
    target: np.ndarray
    source_truncated: bool
    target_is_cut: bool = False

    @property
    def length(self):
        """Ids of the longer side; 1 where there is nothing to translate."""
        if len(self.source) == 1:
            return 1
        return max(len(self.source), len(self.target))


def padded(rows, width=None):
    """Returns a list of int arrays as one int32 [B, width], 0 after each.

    Args:
        rows: list of int arrays.
        width: the longest's by default.
    """
    width = width or max(map(len, rows))
    matrix = np.zeros((len(rows), width), np.int32)
    for row, ids in zip(matrix, rows):
        row[: len(ids)] = ids
    return matrix


def list_of_texts(texts, name="texts"):
    """Returns a list of texts, each of which UTF-8 can write.

    Args:
        texts: iterable of str, but no str.
        name: of the argument, for messages.

    Raises:
        InputError: it is something else.
    """
    if isinstance(texts, (str, bytes)):
        raise InputError(
            f"{name} is one text, where a list of texts is expected; give "
            f"[{texts[:20]!r}] for a list of one."
        )
    texts = list(texts)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{name}[{place}] is of the type {type(text).__name__}; every "
                "text must be a str."
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{name}[{place}] has the lone surrogate "
                f"U+{ord(text[error.start]):04X}, which is no character; read "
                "the text as UTF-8."
            ) from error
    return texts
