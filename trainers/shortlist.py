"""Makes a shortlist: `python -m trainers.shortlist --model=M ...`.

Line N of --translations is taken for a translation of line N of --input, such
as the two sides of the training data. What the model attends to while it says
them, forced, tells which pieces each source piece becomes. The file is for
--shortlist of export.saved_model and export.translate, and of the form that
Marian reads. Lines that the model would cut, and blank ones, are left out.
"""

import contextlib
import gzip
import itertools
import pathlib

import numpy as np
import tensorflow as tf
from absl import flags

import keras_transformer as kt
from export import command
from export.errors import InputError
from export.files.atomic import written_whole
from export.lines.files import aligned_lines
from export.progress_bar import ProgressBar
from export.translators.batches import BATCH_TOKENS, by_tokens
from export.translators.graphs import IDS_SPEC, one_graph
from export.translators.load import load_models
from export.translators.shortlist import Counts, lines_of
from export.translators.text_ids import padded
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory; given several times, models that decode together.",
    required=True,
)
flags.DEFINE_string("input", None, "File of source lines.", required=True)
flags.DEFINE_string(
    "translations", None, "File of their translations.", required=True
)
flags.DEFINE_string(
    "output", None, "File to write, plain or .gz.", required=True
)
flags.DEFINE_integer(
    "best",
    100,
    "The most target pieces that a source piece has in the file.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_tokens",
    128,
    "Pairs with a side of more pieces, the end counted, are left out.",
    lower_bound=2,
)

# Lines that are in memory at a time.
_CHUNK = 8192
# Source pieces that share a target piece: those it attends to most.
_SHARED_BY = 4


def main(arguments):
    """Writes the shortlist."""
    del arguments
    paths = [pathlib.Path(path) for path in FLAGS.model]
    model, tokenizer = load_models(paths)
    counts = Counts(model.config.vocabulary_size)
    attend = one_graph(_attention(model), IDS_SPEC, IDS_SPEC)
    taken = 0
    files = [pathlib.Path(FLAGS.input), pathlib.Path(FLAGS.translations)]
    with ProgressBar("Aligning", None, "lines") as bar:
        lines = aligned_lines(files)
        while chunk := [*itertools.islice(lines, _CHUNK)]:
            pairs = _pairs(tokenizer, chunk)
            lengths = [max(map(len, pair)) for pair in pairs]
            for batch in by_tokens(lengths, BATCH_TOKENS):
                source, target = (
                    padded(list(side))
                    for side in zip(*[pairs[number] for number in batch])
                )
                counts.add(*_aligned(attend, source, target))
            taken += len(pairs)
            bar.update(len(chunk))
    if not taken:
        raise InputError(
            f"No pair of {files[0]} and {files[1]} has text on both sides and "
            f"at most --max_tokens={FLAGS.max_tokens} pieces."
        )
    with written_whole(FLAGS.output) as temporary, _text_file(temporary) as out:
        out.writelines(
            f"{line}\n" for line in lines_of(counts, tokenizer, FLAGS.best)
        )
    print(f"Wrote {FLAGS.output}, of {taken:,} pairs.")


def _attention(model):
    """Returns a function that gives the source pieces of each target piece."""

    def attend(source, target):
        weights = kt.align_ids(model, source, target)
        return tf.math.top_k(
            weights, tf.minimum(_SHARED_BY, tf.shape(source)[1])
        )

    return attend


def _pairs(tokenizer, lines):
    """Returns the ids of the pairs of lines that count."""
    sides = zip(*lines)
    ids = [
        side.encode(list(texts))
        for side, texts in zip((tokenizer.source, tokenizer.target), sides)
    ]
    return [
        pair
        for pair in zip(*ids)
        if all(1 < len(side) <= FLAGS.max_tokens for side in pair)
    ]


def _aligned(attend, source, target):
    """Returns source ids, target ids and shares of the pairs of a batch."""
    weights, places = (each.numpy() for each in attend(source, target))
    source, target = np.asarray(source), np.asarray(target)
    sources = np.take_along_axis(source[:, None], places, axis=2)
    targets = np.broadcast_to(target[:, :, None], sources.shape)
    counted = ~np.isin(targets, (PAD_ID, END_ID, UNKNOWN_ID))
    # Who attends to the end attends to no word.
    counted &= ~np.isin(sources, (PAD_ID, END_ID, UNKNOWN_ID))
    return sources[counted], targets[counted], weights[counted].astype(float)


@contextlib.contextmanager
def _text_file(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8", newline="\n") as stream:
        yield stream


if __name__ == "__main__":
    command.run(main)
