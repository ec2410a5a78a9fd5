"""Scores given translations: `python -m export.score --model M ...`.

Line N of --translations is taken for a translation of line N of --input. A pair
gives a line, in order: the natural logarithm of the translation's probability
under the model, its end counted; not divided by a length penalty. For choosing
among translations, filtering bitexts, or comparing models. Lines longer than
the model takes are truncated.
"""

from absl import flags

from export.common import command
from export.lines.streams import answer_lines
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from export.translators.text_translator import Translation

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

    def ask(pairs, on_progress):
        scores = translator.score(*zip(*pairs))
        if on_progress is not None:
            on_progress(len(pairs))
        return [[Translation("", score)] for score in scores]

    def line(number, found):
        del number
        return [f"{found[0].score:.6f}"]

    beside = "translations", FLAGS.translations
    answer_lines("Scoring", FLAGS.input, FLAGS.output, ask, line, beside)


if __name__ == "__main__":
    command.run(main)
