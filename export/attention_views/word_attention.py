"""Attention of a sentence between words or between pieces."""

import dataclasses
import itertools
import typing

import numpy as np

# By kind: the attributes of AttentionMaps with the rows' and columns' tokens.
KINDS = {
    "encoder": ("source_tokens", "source_tokens"),
    "decoder": ("target_tokens", "target_inputs"),
    "cross": ("target_tokens", "source_tokens"),
}
UNITS = ("words", "pieces")

_SPACES = "\u2581 "
_PUNCTUATION = ".,;:!?()\u00ab\u00bb\"'\u201c\u201d\u2026\u00a0 "


def merge_pieces(maps):
    """Merges pieces to words in AttentionMaps.

    The weight on a word is the sum over its pieces; the row of a word is the
    mean over its pieces; a piece of several words counts for each in equal
    parts. So every row still sums to 1. The begin and end tokens are not
    merged; words without a piece are omitted.
    """
    source = _ranges(maps.source_words, maps.text)
    target = _ranges(maps.target_words, maps.translation)
    source, source_words = _shares(source, maps.text)
    inputs = np.concatenate([[[-1, -1]], target[:-1]])
    inputs, input_words = _shares(inputs, maps.translation)
    target, target_words = _shares(target, maps.translation)
    return dataclasses.replace(
        maps,
        source_tokens=source_words,
        target_tokens=target_words,
        target_inputs=input_words,
        encoder=_merge(maps.encoder, source, source),
        decoder=_merge(maps.decoder, target, inputs),
        cross=_merge(maps.cross, target, source),
    )


def _ranges(words, text):
    # The end token counts as a word after the last one of the text.
    return np.where(words < 0, len(text.split()), words)


def _shares(ranges, text):
    """Returns the share of pieces in words [words, pieces], and the words."""
    names = ["<s>", *text.split(), "</s>"]
    numbers = np.arange(-1, len(names) - 1)[:, None]
    members = (numbers >= ranges[:, 0]) & (numbers <= ranges[:, 1])
    shown = members.any(axis=1)
    shares = members[shown] / members.sum(axis=0)
    return shares, tuple(itertools.compress(names, shown))


def _merge(weights, queries, keys):
    queries = queries / queries.sum(axis=1, keepdims=True)
    merged = queries @ weights.astype(np.float64) @ keys.T
    return merged.astype(np.float32)


class AttentionPart(typing.NamedTuple):
    """Attention of one kind, between words or between pieces.

    `weights` are float32 [L, H, Q, M] of L layers with H heads, Q queries, the
    `rows`, and M keys, the `columns`; each row sums to 1.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: np.ndarray


class SentenceAttention:
    """Attention of one sentence pair, between words and between pieces.

    `maps` are AttentionMaps between pieces, `layers` the number of layers of
    each of `KINDS`, `heads` the number of heads of a layer.
    """

    def __init__(self, maps):
        self.maps = maps
        self.layers = {kind: len(getattr(maps, kind)) for kind in KINDS}
        self.heads = maps.encoder.shape[1]
        self._units = {"words": merge_pieces(maps), "pieces": maps}

    def part(self, unit, kind):
        """Returns the AttentionPart of one of `UNITS` and one of `KINDS`."""
        maps = self._units[unit]
        rows, columns = (getattr(maps, side) for side in KINDS[kind])
        return AttentionPart(rows, columns, getattr(maps, kind))

    def find(self, unit, kind, word):
        """Returns the first row with a word, less its punctuation, or None."""
        rows = [token.strip(_SPACES) for token in self.part(unit, kind).rows]
        for names in (rows, [row.strip(_PUNCTUATION) for row in rows]):
            if word and word in names:
                return names.index(word)
        return None
