"""Flags of commands that read and write lines.

The functions define_* define flags for the module that calls them.
"""

from absl import flags

from export.common.errors import InputError
from export.lines.streams import line_format, process_lines

FLAGS = flags.FLAGS
# --help shows the flags under the module that calls a function.
flags.disclaim_key_flags()


def define_files():
    """Defines --input and --output."""
    flags.DEFINE_string(
        "input", None, "File of lines to read; standard input by default."
    )
    flags.DEFINE_string(
        "output",
        None,
        "File of lines to write, overwritten; standard output by default.",
    )


def define_scores():
    """Defines --scores."""
    flags.DEFINE_boolean("scores", False, "Write the score before the text.")


def define_n_best():
    """Defines --n_best."""
    flags.DEFINE_integer(
        "n_best",
        1,
        "Number of results per line, at most the beam size.",
        lower_bound=1,
    )


def define_translation():
    """Defines the flags of `translate_stream`."""
    define_files()
    define_n_best()
    define_scores()
    flags.DEFINE_boolean(
        "alignments", False, "Write word alignments after the text."
    )


def validate_format():
    """Raises InputError for incompatible flags of `define_translation`."""
    if FLAGS.alignments and FLAGS.n_best > 1:
        raise InputError(
            "--alignments is for the best translation only; omit --n_best, or "
            "run the command twice."
        )


def translate_stream(
    translator, prefix_file=None, on_prefixes=None, terms=None
):
    """Translates --input to --output with a TextTranslator.

    With `prefix_file`, the path of --prefixes, `on_prefixes` is called with the
    list of prefixes of each chunk of lines. `terms` are Terms, or None.
    """
    parallel = None if prefix_file is None else ("prefixes", prefix_file)

    def translate(chunk, on_progress):
        texts, prefixes = chunk, None
        if parallel is not None:
            # Each item is a line of --input and one of --prefixes.
            texts, prefixes = map(list, zip(*chunk))
            on_prefixes(prefixes)
        if FLAGS.alignments:
            translations = translator.align(texts, on_progress, prefixes, terms)
            return [[each] for each in translations]
        return translator.n_best(
            texts, FLAGS.n_best, on_progress, prefixes, terms
        )

    process_lines(
        "Translating",
        FLAGS.input,
        FLAGS.output,
        translate,
        line_format(FLAGS.n_best > 1, FLAGS.scores, FLAGS.alignments),
        parallel,
    )
