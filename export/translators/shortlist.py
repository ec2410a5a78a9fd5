"""Counts aligned tokens and writes lexical shortlists, for trainers."""

import math

import numpy as np

from export.translators.output_vocabulary_files import ANY_SOURCE, token_names

_MERGED_AT_LEAST = 1_000_000


class AlignmentCounts:
    """Counts of target tokens aligned with source tokens.

    Attributes:
        target_counts: float64 [V], occurrences of each target token.
    """

    def __init__(self, target_size):
        self.target_counts = np.zeros(target_size)
        self._keys = np.zeros(0, np.int64)
        self._values = np.zeros(0)
        self._added, self._num_added = [], 0

    def add(self, sources, targets, weights):
        """Adds n pairs of ids; `weights` [n] are the target's share in each."""
        np.add.at(self.target_counts, targets, weights)
        keys = sources.astype(np.int64) * len(self.target_counts) + targets
        self._added.append((keys, weights))
        self._num_added += len(keys)
        # A merge sorts all pairs, so it is done rarely.
        if self._num_added > max(len(self._keys), _MERGED_AT_LEAST):
            self._merge()

    def _merge(self):
        keys, values = zip((self._keys, self._values), *self._added)
        self._keys, places = np.unique(
            np.concatenate(keys), return_inverse=True
        )
        self._values = np.bincount(places, np.concatenate(values))
        self._added, self._num_added = [], 0

    def pairs(self):
        """Returns source ids, target ids and counts, likeliest target first."""
        self._merge()
        sources, targets = np.divmod(self._keys, len(self.target_counts))
        order = np.lexsort((targets, -self._values, sources))
        return sources[order], targets[order], self._values[order]


def format_shortlist(counts, tokenizer, best):
    """Yields the lines of a file with the `best` targets of each source."""
    source_names = token_names(tokenizer.source)
    target_names = token_names(tokenizer.target)
    total = math.fsum(counts.target_counts)
    for target in np.argsort(-counts.target_counts, kind="stable"):
        if not counts.target_counts[target]:
            break
        share = counts.target_counts[target] / total
        yield f"{target_names[target]} {ANY_SOURCE} {share:.6g}"
    sources, targets, values = counts.pairs()
    begins = np.flatnonzero(np.diff(sources, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(sources)]):
        name = source_names[sources[begin]]
        if name == ANY_SOURCE:
            # In the format it would stand for every sentence.
            continue
        total = sum(values[begin:end].tolist())
        for place in range(begin, min(begin + best, end)):
            share = values[place] / total
            yield f"{target_names[targets[place]]} {name} {share:.6g}"
