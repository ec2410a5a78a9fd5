"""The flags of commands that translate lines, and what they ask for."""

from absl import flags

from export.common.errors import InputError
from export.lines import formats
from export.lines.streams import answer_lines

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "input", None, "File of lines to translate; standard input by default."
)
flags.DEFINE_string(
    "output",
    None,
    "File for the translations, written anew; standard output by default.",
)
flags.DEFINE_integer(
    "n_best",
    1,
    "Translations of a line, at most the beam size.",
    lower_bound=1,
)
flags.DEFINE_boolean("scores", False, "Write the score before the text.")
flags.DEFINE_boolean(
    "alignments",
    False,
    "Write after the text which source word each word is from.",
)


def line_format():
    """Returns the function of `export.lines.formats` that was asked for.

    Raises:
        InputError: the flags do not go together.
    """
    several = FLAGS.n_best > 1
    if not FLAGS.alignments:
        return formats.line_format(several, FLAGS.scores)
    if several:
        raise InputError(
            "--alignments are of the best translation alone; leave out "
            "--n_best, or ask for them in a run of their own."
        )
    if FLAGS.scores:
        return formats.scored_and_aligned_text
    return formats.aligned_text


def translate_stream(translator, form, beside=None):
    """Translates --input into --output.

    Args:
        translator: TextTranslator.
        form: of `line_format`.
        beside: of `answer_lines`: a file of prefixes, or None.

    Raises:
        InputError: a file cannot be read or written.
    """

    def ask(lines, on_progress):
        texts, prefixes = lines, None
        if beside is not None:
            texts, prefixes = map(list, zip(*lines))
        if FLAGS.alignments:
            found = translator.align(texts, on_progress, prefixes)
            return [[best] for best in found]
        return translator.n_best(texts, FLAGS.n_best, on_progress, prefixes)

    answer_lines("Translating", FLAGS.input, FLAGS.output, ask, form, beside)
