"""Scores given translations: `python -m export.score --model M ...`.

Line N of --translations is taken for a translation of line N of --input. A pair
gives a line, in order: the natural logarithm of the translation's probability
under the model, its end counted; not divided by a length penalty. For choosing
among translations, filtering bitexts, or comparing models. Lines longer than
the model takes are truncated.
"""

import contextlib
import itertools

from absl import flags

from export import command
from export.lines.files import decoded_lines
from export.lines.streams import (
    READER_HAS_GONE,
    open_input,
    open_output,
    paired_lines,
    progress,
    sizes_for,
)
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory or exported version; given several times, model "
    "directories whose mean log-probability counts.",
    required=True,
)
flags.DEFINE_string(
    "input", None, "File of source lines; standard input by default."
)
flags.DEFINE_string(
    "translations", None, "File of their translations.", required=True
)
flags.DEFINE_string(
    "output", None, "File for the scores; standard output by default."
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Pieces of the longer side in a batch, padding counted.",
    lower_bound=1,
)


def main(arguments):
    """Scores two files, line by line."""
    del arguments
    translator = load_translator(FLAGS.model, FLAGS.batch_tokens, {})
    with contextlib.ExitStack() as stack:
        source = open_input(stack, FLAGS.input)
        target = open_input(stack, FLAGS.translations, "translations")
        output = open_output(
            stack, FLAGS.output, FLAGS.input, FLAGS.translations
        )
        on_progress = progress(stack, "Scoring", FLAGS.output)
        pairs = paired_lines(
            decoded_lines(source),
            decoded_lines(target, "--translations"),
            "translations",
        )
        for size in sizes_for(source):
            chunk = list(itertools.islice(pairs, size))
            if not chunk:
                break
            scores = translator.score(*zip(*chunk))
            try:
                output.write(f"{score:.6f}" for score in scores)
            except BrokenPipeError:
                return READER_HAS_GONE
            if on_progress is not None:
                on_progress(len(chunk))
    return None


if __name__ == "__main__":
    command.run(main)
