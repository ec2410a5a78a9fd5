"""Sentence pairs as ids, in two flat arrays each."""

import dataclasses
import itertools

import numpy as np

from export.errors import InputError

_CHUNK = 20_000


@dataclasses.dataclass(frozen=True)
class TokenPairs:
    """Many sentence pairs, every sentence ending with the end id.

    Attributes:
        source: int32, all source ids one after the other.
        source_starts: int64 [pairs + 1], where each sentence begins.
        target: int32, all target ids.
        target_starts: int64 [pairs + 1].
        dropped: pairs left out because a side was too long.
    """

    source: np.ndarray
    source_starts: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray
    dropped: int = 0

    def __len__(self):
        return len(self.source_starts) - 1

    @property
    def source_lengths(self):
        """int64 [pairs], ids of each source, the end id counted."""
        return np.diff(self.source_starts)

    @property
    def target_lengths(self):
        """int64 [pairs], ids of each target, the end id counted."""
        return np.diff(self.target_starts)


def tokenise_pairs(pairs, tokenizer, max_tokens, on_progress=None):
    """Tokenises sentence pairs.

    Args:
        pairs: iterable of (source, target) str.
        tokenizer: Tokenizer.
        max_tokens: pairs with a side of more ids than this, the end id
            counted, are left out and counted.
        on_progress: function of the number of pairs just done, or None.

    Returns:
        TokenPairs.

    Raises:
        InputError: no pair is left.
    """
    sources, targets, dropped = [], [], 0
    remaining = iter(pairs)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        encoded = zip(
            tokenizer.encode([source for source, _ in chunk]),
            tokenizer.encode([target for _, target in chunk]),
        )
        for source, target in encoded:
            if max(len(source), len(target)) > max_tokens:
                dropped += 1
            else:
                sources.append(source)
                targets.append(target)
        if on_progress is not None:
            on_progress(len(chunk))
    if not sources:
        raise InputError(
            f"No sentence pair is left to train on ({dropped} have more than "
            f"{max_tokens} pieces on a side); check the data set."
        )
    return TokenPairs(*_flatten(sources), *_flatten(targets), dropped)


def _flatten(sentences):
    starts = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(ids) for ids in sentences], out=starts[1:])
    return np.concatenate(sentences).astype(np.int32), starts


def padded(flat, starts, rows, length):
    """Returns some sentences as a matrix padded with 0.

    Args:
        flat: int32, all ids.
        starts: int64 [pairs + 1].
        rows: int64 [B], which sentences; -1 gives a row of padding.
        length: columns.

    Returns:
        int32 [B, length].
    """
    first, last = starts[rows], starts[rows + 1]
    places = first[:, None] + np.arange(length)
    real = (places < last[:, None]) & (rows >= 0)[:, None]
    return np.where(real, flat[np.where(real, places, 0)], 0).astype(np.int32)
