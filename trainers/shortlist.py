"""Makes a lexical shortlist: `python -m trainers.shortlist --model=M ...`.

Line N of --translations is the translation of line N of --input. The model's
attention during force-decoding gives the likely target tokens of each source
token. Writes Marian's format, for --shortlist of export.saved_model and
export.translate. Skips blank lines, and pairs of more than --max_tokens.
"""

import gzip
import itertools
import math
import pathlib
import typing
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from absl import flags

import keras_transformer as kt
from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import atomic_write
from export.lines.files import aligned_lines
from export.model_directory import ModelDirectory, load_models
from export.translators import search_flags
from export.translators.batches import BATCH_TOKENS, batch_by_length, pad_ids
from export.translators.graph_translator import IDS_SPEC, trace_once
from export.translators.languages import Languages
from export.translators.model_backend import model_for_tokenizer
from export.translators.output_vocabulary_files import ANY_SOURCE
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID

FLAGS = flags.FLAGS

search_flags.define_languages()
flags.DEFINE_multi_string(
    "model", None, "Model directory; repeat it for an ensemble.", required=True
)
flags.DEFINE_string("input", None, "File of source lines.", required=True)
flags.DEFINE_string(
    "translations", None, "File of their translations.", required=True
)
flags.DEFINE_string(
    "output", None, "File to write, plain or .gz.", required=True
)
flags.DEFINE_integer(
    "best", 100, "Maximum target tokens of each source token.", lower_bound=1
)
flags.DEFINE_integer(
    "max_tokens",
    128,
    "Pairs with more tokens on a side, the end included, are skipped.",
    lower_bound=2,
)

# Number of lines in memory.
_CHUNK_LINES = 8192
# Number of most attended source tokens counted for each target token.
_SOURCES_PER_TARGET = 4
# Minimum number of new counts to merge: a merge sorts all keys.
_MIN_MERGED = 1_000_000


def main(arguments: list[str]) -> None:
    """Writes the shortlist."""
    del arguments
    folders = [pathlib.Path(path) for path in FLAGS.model]
    model, tokenizer = load_models(folders)
    model = model_for_tokenizer(model, tokenizer)
    languages = Languages.from_directory(ModelDirectory(folders[0]), tokenizer)
    languages = languages.select(FLAGS.source_language, FLAGS.target_language)
    counts, num_pairs = _count_alignments(model, tokenizer, languages)
    open_text = gzip.open if FLAGS.output.endswith(".gz") else open
    with (
        atomic_write(FLAGS.output) as temporary,
        open_text(temporary, "wt", encoding="utf-8", newline="\n") as file,
    ):
        for line in format_shortlist(counts, tokenizer, FLAGS.best):
            file.write(f"{line}\n")
    print(f"Wrote {FLAGS.output}, of {num_pairs:,} pairs.")


def _count_alignments(model, tokenizer, languages):
    """Returns the AlignmentCounts of the files, and their number of pairs."""

    def top_attention(source, target):
        weights = kt.force_align(model, source, target)
        k = tf.minimum(_SOURCES_PER_TARGET, tf.shape(source)[1])
        return tf.math.top_k(weights, k)

    top_attention = trace_once(top_attention, IDS_SPEC, IDS_SPEC)
    counts, num_pairs = AlignmentCounts(model.config.vocabulary_size), 0
    paths = [pathlib.Path(FLAGS.input), pathlib.Path(FLAGS.translations)]
    with ProgressBar("Aligning", None, "lines") as bar:
        lines = aligned_lines(paths)
        while chunk := list(itertools.islice(lines, _CHUNK_LINES)):
            pairs = _encode(tokenizer, languages, chunk)
            for sources, targets, weights in _align(top_attention, pairs):
                counts.add(sources, targets, weights)
            num_pairs += len(pairs)
            bar.update(len(chunk))
    if not num_pairs:
        raise InputError(
            f"No pair of {paths[0]} and {paths[1]} has text on both sides and "
            f"at most --max_tokens={FLAGS.max_tokens} tokens."
        )
    return counts, num_pairs


def _encode(tokenizer, languages, lines):
    """Returns (source ids, target ids) of the pairs that are not skipped."""
    sources = tokenizer.source.encode(
        [languages.tag(source) for source, _ in lines]
    )
    targets = tokenizer.target.encode([target for _, target in lines])
    return [
        (source, target)
        for source, target in zip(sources, targets)
        if min(len(source), len(target)) > 1
        and max(len(source), len(target)) <= FLAGS.max_tokens
    ]


def _align(top_attention, pairs):
    """Yields the aligned source ids, target ids and weights of each batch."""
    lengths = [max(map(len, pair)) for pair in pairs]
    for batch in batch_by_length(lengths, BATCH_TOKENS):
        source = pad_ids([pairs[index][0] for index in batch])
        target = pad_ids([pairs[index][1] for index in batch])
        weights, positions = top_attention(source, target)
        sources = np.take_along_axis(source[:, None], positions.numpy(), axis=2)
        targets = np.broadcast_to(target[:, :, None], sources.shape)
        excluded = (PAD_ID, END_ID, UNKNOWN_ID)
        counted = ~np.isin(targets, excluded) & ~np.isin(sources, excluded)
        yield sources[counted], targets[counted], weights.numpy()[counted]


class AlignmentCounts:
    """Counts of target tokens aligned with source tokens."""

    def __init__(self, target_size: int):
        self._target_size = target_size
        # Source id * target_size + target id, and the count of each pair.
        self._keys = np.zeros(0, np.int64)
        self._values = np.zeros(0)
        self._added: list[tuple[np.ndarray, np.ndarray]] = []
        self._num_added = 0

    def add(
        self, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> None:
        """Adds pairs of source and target ids, counted by their weights."""
        keys = sources.astype(np.int64) * self._target_size + targets
        self._added.append((keys, weights))
        self._num_added += len(keys)
        if self._num_added > max(len(self._keys), _MIN_MERGED):
            self._merge()

    def _merge(self):
        keys, values = zip((self._keys, self._values), *self._added)
        keys, indices = np.unique(np.concatenate(keys), return_inverse=True)
        self._keys = keys
        self._values = np.bincount(indices, np.concatenate(values))
        self._added, self._num_added = [], 0

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns source ids, target ids and counts, likeliest target first."""
        self._merge()
        sources, targets = np.divmod(self._keys, self._target_size)
        order = np.lexsort((targets, -self._values, sources))
        return sources[order], targets[order], self._values[order]


def format_shortlist(
    counts: AlignmentCounts, tokenizer: typing.Any, best: int
) -> Iterator[str]:
    """Yields lines "target source probability", `best` for each source."""
    source_tokens = _list_tokens(tokenizer.source)
    target_tokens = _list_tokens(tokenizer.target)
    sources, targets, values = counts.pairs()
    target_counts = np.bincount(targets, values)
    total = math.fsum(target_counts)
    for target in np.argsort(-target_counts, kind="stable"):
        if not target_counts[target]:
            break
        share = target_counts[target] / total
        yield f"{target_tokens[target]} {ANY_SOURCE} {share:.6g}"
    begins = np.flatnonzero(np.diff(sources, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(sources)]):
        source_token = source_tokens[sources[begin]]
        if source_token == ANY_SOURCE:
            # Its lines would apply to every sentence.
            continue
        total = sum(values[begin:end].tolist())
        end = min(begin + best, end)
        for target, value in zip(targets[begin:end], values[begin:end]):
            yield f"{target_tokens[target]} {source_token} {value / total:.6g}"


def _list_tokens(tokenizer):
    tokens = tokenizer.ids_to_tokens(tf.range(tokenizer.vocabulary_size))
    return [token.decode("utf-8") for token in tokens.numpy()]


if __name__ == "__main__":
    command.run(main)
