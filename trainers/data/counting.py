"""Reads the training pairs once before the slow tokenization.

Finds malformed lines, duplicates, and evaluation pairs that train has too.
"""

import collections
import itertools
import re
import typing

import numpy as np

from trainers.data.cleaning import DuplicateFinder
from trainers.data.codecs import CODECS, make_codec
from trainers.data.corpus import Corpus
from trainers.data.manifest import DataSource, Overlap
from trainers.data.prepared_corpus import VOCABULARY_FILE
from trainers.data.vocabulary import (
    NFKC_RULES,
    choose_normalization,
    count_code_points,
    make_text_normalizer,
)

_COUNTING_BATCH = 10_000


class TrainingCounts(typing.NamedTuple):
    """Number of training pairs, and what was found in them.

    `code_points`, int64 [sides, 0x110000], counts those of each side that the
    vocabulary is trained on. `is_unique`, bool [pairs], is False for duplicates
    to drop. `overlaps` has the Overlap of each evaluation split.
    """

    num_pairs: int
    code_points: np.ndarray
    is_unique: np.ndarray
    overlaps: dict[str, Overlap]


def count_training_pairs(
    corpus: Corpus, data_source: DataSource, vocabulary: bytes | None = None
) -> TrainingCounts:
    """Returns the TrainingCounts of a Corpus.

    `vocabulary` as in `prepare_corpus`.
    """
    overlaps, finder = _OverlapFinder(corpus), None
    pairs, name = corpus.pairs("train"), data_source.normalization
    # Mostly chosen; otherwise the pairs are read again.
    assumed = NFKC_RULES if name == "auto" else name
    is_near = data_source.drop_near_duplicates
    if data_source.drop_duplicates or is_near:
        if vocabulary is None:
            normalizers = [make_text_normalizer(assumed)] * 2
        else:
            files = {VOCABULARY_FILE: vocabulary}
            normalizers = make_codec(corpus.kind, files).normalizers
        finder = DuplicateFinder(normalizers, is_near)
        pairs = finder.read_pairs(corpus)
    num_pairs, counts = _count_pairs(corpus.kind, overlaps.watch(pairs))
    if finder is None:
        is_unique = np.broadcast_to(True, num_pairs)
    else:
        chosen = choose_normalization(name, counts)
        if vocabulary is None and chosen != assumed:
            normalizers = [make_text_normalizer(chosen)] * 2
            finder = DuplicateFinder(normalizers, is_near)
            collections.deque(finder.read_pairs(corpus), maxlen=0)
        is_unique = finder.find_unique()
    return TrainingCounts(num_pairs, counts, is_unique, overlaps.count())


def _count_pairs(kind, pairs):
    """Returns the number of pairs, and the counts of their code points."""
    num_sides = CODECS[kind].num_trained_sides
    num_pairs, counts = 0, 0
    while batch := list(itertools.islice(pairs, _COUNTING_BATCH)):
        num_pairs += len(batch)
        sides = list(zip(*batch))[:num_sides]
        counts = np.add(counts, [count_code_points(texts) for texts in sides])
    return num_pairs, counts


class _OverlapFinder:
    """Finds evaluation pairs in train; keeps hashes of those pairs alone.

    A tag of a mixture such as <bt> does not make a source another one.
    """

    def __init__(self, corpus):
        domain_tags = [tag for tag in corpus.tags if tag.startswith("<")]
        alternatives = "|".join(map(re.escape, domain_tags))
        self._tag = re.compile(rf"(?<!\S)(?:{alternatives}) ")
        self._has_tags = bool(domain_tags)
        # In train: False until it is found there.
        self._is_seen = {}
        self._splits = {
            name: [*map(self._hashes, corpus.pairs(name))]
            for name in corpus.splits()
            if name != "train"
        }
        for hashes in itertools.chain.from_iterable(self._splits.values()):
            self._is_seen |= dict.fromkeys(hashes, False)

    def _hashes(self, pair):
        source, target = pair
        if self._has_tags:
            source = self._tag.sub("", source, count=1)
        return hash(source), hash((source, target))

    def watch(self, pairs):
        """Yields training pairs, and compares them."""
        is_seen = self._is_seen
        for pair in pairs:
            source, both = self._hashes(pair)
            if source in is_seen:
                is_seen[source] = True
                if both in is_seen:
                    is_seen[both] = True
            yield pair

    def count(self):
        """Returns the Overlap of each split."""
        return {
            name: Overlap(
                len(hashes),
                sum(self._is_seen[source] for source, _ in hashes),
                sum(self._is_seen[both] for _, both in hashes),
            )
            for name, hashes in self._splits.items()
        }
