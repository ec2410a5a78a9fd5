"""A sentence's attention between words and between pieces."""

import dataclasses
import typing

import numpy as np

from export.translators.word_alignment import SPACE, words_of_pieces

_SPECIAL = ("<s>", "</s>")


def merged_words(maps):
    """Merges pieces to words: keys are summed, queries averaged.

    What a word is attended to is the sum over its pieces; what it attends to
    is the mean over its pieces. So every row sums to 1 as before. The begin
    and the end stand alone. Text without white space is one word.

    Args:
        maps: AttentionMaps of pieces.

    Returns:
        AttentionMaps of words; its tokens are without "\u2581".
    """
    source, source_words = _words(maps.source_tokens)
    target, target_words = _words(maps.target_tokens)
    inputs, input_words = _words(maps.target_inputs)
    return dataclasses.replace(
        maps,
        source_tokens=source_words,
        target_tokens=target_words,
        target_inputs=input_words,
        encoder=_merged(maps.encoder, source, source),
        decoder=_merged(maps.decoder, target, inputs),
        cross=_merged(maps.cross, target, source),
    )


def _words(tokens):
    """Returns the number of each token's word, and the words."""
    first = int(tokens[:1] == _SPECIAL[:1])
    last = len(tokens) - (tokens[-1:] == _SPECIAL[1:])
    inner = words_of_pieces(tokens[first:last])
    numbers = [*range(first), *(number + first for number in inner)]
    if last < len(tokens):
        numbers.append(numbers[-1] + 1 if numbers else 0)
    words = [""] * (numbers[-1] + 1)
    for number, token in zip(numbers, tokens):
        words[number] += token
    return np.array(numbers), tuple(
        word.replace(SPACE, " ").strip() for word in words
    )


def _merged(weights, queries, keys):
    """[..., Q, M] to [..., words of Q, words of M]."""
    of_queries = _members(queries)
    of_queries /= of_queries.sum(axis=1, keepdims=True)
    merged = of_queries @ weights.astype(np.float64) @ _members(keys).T
    return merged.astype(np.float32)


def _members(numbers):
    """Float64 [words, pieces]: 1 where a piece is of a word."""
    return (np.arange(numbers[-1] + 1)[:, None] == numbers).astype(np.float64)


class AttentionPart(typing.NamedTuple):
    """One kind of attention, between words or between pieces.

    Attributes:
        rows: tuple of str [Q]: the tokens that look.
        columns: tuple of str [M]: the tokens that are looked at.
        weights: float32 [L, H, Q, M] of L layers with H heads; rows sum to 1.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: np.ndarray


class AttendedSentence:
    """Attention in one sentence pair.

    Args:
        maps: AttentionMaps of pieces.

    Attributes:
        maps: as given.
        layers: dict, the number of layers of each of `KINDS`.
        heads: number of heads of a layer.
    """

    KINDS = ("encoder", "decoder", "cross")
    UNITS = ("words", "pieces")

    def __init__(self, maps):
        self.maps = maps
        self.layers = {kind: len(getattr(maps, kind)) for kind in self.KINDS}
        self.heads = maps.encoder.shape[1]
        self._units = {"words": merged_words(maps), "pieces": maps}

    def part(self, unit, kind):
        """Returns the AttentionPart of a unit and a kind."""
        maps = self._units[unit]
        rows, columns = {
            "encoder": (maps.source_tokens, maps.source_tokens),
            "decoder": (maps.target_tokens, maps.target_inputs),
            "cross": (maps.target_tokens, maps.source_tokens),
        }[kind]
        return AttentionPart(rows, columns, getattr(maps, kind))

    def find(self, unit, kind, word):
        """Finds a word among those that look.

        Args:
            unit: of `UNITS`.
            kind: of `KINDS`.
            word: str, with its punctuation or without.

        Returns:
            The number of the first row that is the word; None if none is.
        """
        rows = [token.strip(_SPACES) for token in self.part(unit, kind).rows]
        for names in (rows, [row.strip(_PUNCTUATION) for row in rows]):
            if word and word in names:
                return names.index(word)
        return None


_SPACES = "\u2581 "
_PUNCTUATION = ".,;:!?()\u00ab\u00bb\"'\u201c\u201d\u2026\u00a0 "
