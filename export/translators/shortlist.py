"""Which pieces each piece of a source may become: a file, as Marian reads it.

A line has a target piece, a source piece and the probability that the first is
a translation of the second, with spaces between; "NULL" in the source's place
is for any sentence, however its source reads. trainers.shortlist writes it; so
do programs that align text which was split into the same pieces.
"""

import gzip
import math
import pathlib

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.lines.files import read_lines

# Relative to an export's folder.
FILE = pathlib.PurePath("assets.extra", "shortlist.gz")
ANY_SOURCE = "NULL"
# Pieces of each sentence's list, unless said otherwise.
SIZE = 1024

# Target pieces of each source piece that are looked at: the likeliest, and the
# same piece where the target's vocabulary has it, since names are copied.
_BEST = 100
_SAME = 0.01

_MERGED_AT_LEAST = 1_000_000


def read_shortlist(path, tokenizer, config, size=None):
    """Reads a file.

    Args:
        path: of the file, plain or .gz.
        tokenizer: Tokenizer or TokenizerPair.
        config: TransformerConfig.
        size: pieces of each sentence's list; SIZE when None.

    Returns:
        kt.OutputVocabulary.

    Raises:
        InputError: the file cannot be read or is none, it has a piece that
            the vocabulary has not, or the size is none for this model.
    """
    import keras_transformer as kt

    size = size or SIZE
    if size >= config.vocabulary_size:
        raise InputError(
            f"--shortlist_size={size} leaves none out of the "
            f"{config.vocabulary_size} pieces of the model's target; choose a "
            "smaller one, or leave the shortlist out."
        )
    sources, targets = map(_Pieces, (tokenizer.source, tokenizer.target))
    pairs, values = [], []
    everywhere = np.zeros(config.vocabulary_size, np.float32)
    for number, line in enumerate(read_lines(path, True), 1):
        try:
            target, source, probability = line.split(" ")
            probability = float(probability)
            if not 0 <= probability <= 1:
                raise ValueError
        except ValueError:
            raise InputError(
                f"Line {number} of {path} is not a target piece, a source "
                "piece and a probability; trainers.shortlist makes such files."
            ) from None
        wanted = targets.id(target, path, number)
        if source == ANY_SOURCE:
            everywhere[wanted] = probability
        else:
            pairs.append((sources.id(source, path, number), wanted))
            values.append(probability)
    if not pairs:
        raise InputError(
            f"There is nothing in {path}; make it with trainers.shortlist."
        )
    table = _table(np.array(pairs), np.array(values), config.source_pieces)
    targets, probabilities = _with_same(*table, sources, targets)
    return kt.OutputVocabulary.shortlist(
        targets, probabilities, everywhere, size
    )


def load_shortlist(search, tokenizer, config):
    """Returns a search whose `shortlist`, a path so far, is a vocabulary.

    Args:
        search: dict of what IdTranslator takes, with `shortlist_size` where
            that was asked for.
        tokenizer: as for `read_shortlist`.
        config: as for `read_shortlist`.

    Raises:
        InputError: as for `read_shortlist`; or there is a size without a
            file, or one beside target pieces.
    """
    search = dict(search)
    size = search.pop("shortlist_size", None)
    if "shortlist" not in search:
        if size is not None:
            raise InputError(
                "--shortlist_size is that of --shortlist's lists; add "
                "--shortlist, or leave the size out."
            )
        return search
    if "target_pieces" in search:
        raise InputError(
            "--shortlist says which pieces each translation has, and "
            "--target_pieces which all have: leave out one of them."
        )
    path = search["shortlist"]
    return search | {"shortlist": read_shortlist(path, tokenizer, config, size)}


def copy(path, copied):
    """Writes the same file once more, in gzip.

    Args:
        path: of the file, plain or .gz.
        copied: path to write.

    Raises:
        InputError: the file cannot be read.
    """
    with gzip.open(copied, "wt", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in read_lines(path, True))


class _Pieces:
    """Ids by pieces."""

    def __init__(self, tokenizer):
        vocabulary = sentencepiece.SentencePieceProcessor(
            model_proto=tokenizer.proto
        )
        self.names = [
            vocabulary.IdToPiece(number)
            for number in range(tokenizer.vocabulary_size)
        ]
        self.ids = {name: number for number, name in enumerate(self.names)}

    def id(self, name, path, line):
        """Returns the id; raises InputError where there is none."""
        number = self.ids.get(name)
        if number is None:
            raise InputError(
                f"Line {line} of {path} has {name!r}, which is no piece of the "
                "model's vocabulary; give the shortlist that was made for it."
            )
        return number


def _table(pairs, values, source_pieces):
    """Returns the likeliest targets of each source, and their probabilities.

    Args:
        pairs: int [n, 2], source and target id.
        values: float [n], the probabilities.
        source_pieces: V_s.

    Returns:
        int32 and float32 [V_s, _BEST]; probability 0 where there are fewer.
    """
    order = np.lexsort((pairs[:, 1], -values, pairs[:, 0]))
    sources, found = pairs[order].T
    begins = np.searchsorted(sources, sources)
    rank = np.arange(len(sources)) - begins
    kept = rank < _BEST
    place = sources[kept], rank[kept]
    targets = np.zeros((source_pieces, _BEST), np.int32)
    probabilities = np.zeros((source_pieces, _BEST), np.float32)
    targets[place] = found[kept]
    probabilities[place] = values[order][kept]
    return targets, probabilities


def _with_same(targets, probabilities, sources, targets_of):
    """Adds to each source the target piece that is spelt alike."""
    same = np.zeros((len(targets), 1), np.int32)
    share = np.zeros((len(targets), 1), np.float32)
    for number, name in enumerate(sources.names):
        wanted = targets_of.ids.get(name)
        if wanted is not None:
            same[number], share[number] = wanted, _SAME
    return (
        np.concatenate([targets, same], axis=1),
        np.concatenate([probabilities, share], axis=1),
    )


def lines_of(counts, tokenizer, best):
    """Yields the lines of a file.

    Args:
        counts: Counts, of how often each pair was aligned.
        tokenizer: Tokenizer or TokenizerPair.
        best: the most target pieces of a source piece.
    """
    sources, targets = map(_Pieces, (tokenizer.source, tokenizer.target))
    total = math.fsum(counts.of_targets)
    for target in np.argsort(-counts.of_targets, kind="stable"):
        if not counts.of_targets[target]:
            break
        share = counts.of_targets[target] / total
        yield f"{targets.names[target]} {ANY_SOURCE} {share:.6g}"
    pairs, values = counts.pairs()
    order = np.lexsort((pairs[:, 1], -values, pairs[:, 0]))
    for source, rows in _grouped(pairs[order], values[order]):
        if sources.names[source] == ANY_SOURCE:
            # The format has no other way to write a piece of this name.
            continue
        total = sum(value for _, value in rows)
        for target, value in rows[:best]:
            yield f"{targets.names[target]} {sources.names[source]} " + (
                f"{value / total:.6g}"
            )


def _grouped(pairs, values):
    begins = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(pairs)]):
        yield (
            pairs[begin, 0],
            [*zip(pairs[begin:end, 1].tolist(), values[begin:end].tolist())],
        )


class Counts:
    """How often target pieces were aligned with source pieces.

    Args:
        target_pieces: V, of the target's vocabulary.

    Attributes:
        of_targets: float64 [V], how often each target piece was there.
    """

    def __init__(self, target_pieces):
        self.of_targets = np.zeros(target_pieces)
        self._keys = np.zeros(0, np.int64)
        self._values = np.zeros(0)
        self._added, self._waiting = [], 0

    def add(self, sources, targets, weights):
        """Adds pairs.

        Args:
            sources: int [n], source ids.
            targets: int [n], target ids.
            weights: float [n], the share of the target in each pair.
        """
        np.add.at(self.of_targets, targets, weights)
        keys = sources.astype(np.int64) * len(self.of_targets) + targets
        self._added.append((keys, weights))
        self._waiting += len(keys)
        # A merge sorts all there is: seldom, so that it costs little a pair.
        if self._waiting > max(len(self._keys), _MERGED_AT_LEAST):
            self._merge()

    def _merge(self):
        keys, values = zip((self._keys, self._values), *self._added)
        self._keys, places = np.unique(
            np.concatenate(keys), return_inverse=True
        )
        self._values = np.bincount(places, np.concatenate(values))
        self._added, self._waiting = [], 0

    def pairs(self):
        """Returns int64 [n, 2], source and target ids, and float64 [n]."""
        self._merge()
        pairs = np.divmod(self._keys, len(self.of_targets))
        return np.stack(pairs, axis=1), self._values
