"""Attention weights of a translation, between its pieces or its words."""

import dataclasses
import itertools
import typing

import numpy as np

# Kinds of attention: encoder and decoder self-attention, and cross-attention,
# with the AttentionMaps attributes that hold their queries and keys.
ATTENTION_KINDS = {
    "encoder": ("source_tokens", "source_tokens"),
    "decoder": ("target_tokens", "target_inputs"),
    "cross": ("target_tokens", "source_tokens"),
}
# Units of queries and keys: words, or SentencePiece pieces.
UNITS = ("words", "pieces")

_SPACES = "\u2581 "
_PUNCTUATION = _SPACES + ".,;:!?()\u00ab\u00bb\"'\u201c\u201d\u2026\u00a0"


@dataclasses.dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one translation, without padding.

    Letters: L layers of the encoder or the decoder, H heads, S source tokens, T
    target tokens. Rows are queries, columns keys; every row sums to 1, that of
    the target's tag in `encoder`, which does not get it, to 0. Row t of
    `decoder` and `cross` belongs to the step that predicts `target_tokens[t]`
    from `target_inputs[: t + 1]`, which are the columns of `decoder`.

    Attributes:
        source_tokens: [S] str, such as "\u2581the"; the last one is "</s>".
        target_tokens: [T] str, the tokens of the translation.
        target_inputs: [T] str: "<s>", then all `target_tokens` but the last.
        encoder: float32 [L, H, S, S].
        decoder: float32 [L, H, T, T].
        cross: float32 [L, H, T, S].
        source_words: int32 [S, 2]: the first and the last word of `text` that
            each token belongs to, -1 for the end token.
        target_words: int32 [T, 2], the same for `translation`.
        source_truncated, target_truncated: whether the text or a given
            translation exceeded the model's maximum length.
    """

    text: str
    translation: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    target_inputs: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_words: np.ndarray
    target_words: np.ndarray
    source_truncated: bool = False
    target_truncated: bool = False


def merge_pieces(maps: AttentionMaps) -> AttentionMaps:
    """Merges pieces to words in AttentionMaps.

    Keys are merged by sum, queries by mean, so every row still sums to 1. A
    piece of several words counts for each in equal parts. The begin and end
    tokens are not merged; words without a piece are omitted.
    """
    source_spans = _word_spans(maps.source_words, maps.text)
    target_spans = _word_spans(maps.target_words, maps.translation)
    input_spans = np.concatenate([[[-1, -1]], target_spans[:-1]])
    source, source_words = _shares(source_spans, maps.text)
    inputs, input_words = _shares(input_spans, maps.translation)
    target, target_words = _shares(target_spans, maps.translation)
    return dataclasses.replace(
        maps,
        source_tokens=source_words,
        target_tokens=target_words,
        target_inputs=input_words,
        encoder=_merge(maps.encoder, source, source),
        decoder=_merge(maps.decoder, target, inputs),
        cross=_merge(maps.cross, target, source),
    )


def _word_spans(words, text):
    # The end token counts as a word after the last one of the text.
    return np.where(words < 0, len(text.split()), words)


def _shares(spans, text):
    """Returns each word's share of pieces [words, pieces], and the words."""
    words = ["<s>", *text.split(), "</s>"]
    indices = np.arange(-1, len(words) - 1)[:, None]
    contains = (indices >= spans[:, 0]) & (indices <= spans[:, 1])
    has_piece = contains.any(axis=1)
    shares = contains[has_piece] / contains.sum(axis=0)
    return shares, tuple(itertools.compress(words, has_piece))


def _merge(weights, queries, keys):
    merged = queries @ weights.astype(np.float64) @ keys.T
    # The mean of a word's pieces that attend: a tag, to which a row of 0
    # belongs, is part of the first word.
    totals = merged.sum(axis=-1, keepdims=True)
    return (merged / np.where(totals == 0, 1, totals)).astype(np.float32)


class AttentionMatrices(typing.NamedTuple):
    """Weights of one kind, float32 [L, H, queries, keys]; rows sum to 1."""

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray


class SentenceAttention:
    """Attention of one sentence pair, between words and between pieces.

    `maps` are AttentionMaps, `num_layers` a dict of the number of layers by
    kind of attention, `num_heads` the number of heads of a layer.
    """

    def __init__(self, maps: AttentionMaps):
        self.maps = maps
        self.num_layers = {
            kind: len(getattr(maps, kind)) for kind in ATTENTION_KINDS
        }
        self.num_heads = maps.encoder.shape[1]
        self._maps_by_unit = {"words": merge_pieces(maps), "pieces": maps}

    def matrices(self, unit: str, kind: str) -> AttentionMatrices:
        """Returns the AttentionMatrices of a unit and a kind of attention."""
        maps = self._maps_by_unit[unit]
        queries, keys = ATTENTION_KINDS[kind]
        return AttentionMatrices(
            getattr(maps, queries), getattr(maps, keys), getattr(maps, kind)
        )

    def find_query(self, unit: str, kind: str, word: str) -> int | None:
        """Returns the index of the first query with this word, or None."""
        queries = self.matrices(unit, kind).queries
        # A word without its punctuation is the second choice.
        for ignored in (_SPACES, _PUNCTUATION):
            stripped = [query.strip(ignored) for query in queries]
            if word and word in stripped:
                return stripped.index(word)
        return None
