"""Parses sentences: `python -m export.parse --model M < in > out`.

M is a model directory of trainers.parsing. A line is a sentence, its words and
punctuation separated by spaces as in the Penn Treebank ("The protein binds to
DNA ."); it gives a line: the tree in brackets, over exactly these words. A
blank line gives a blank one. --scores writes the score before the tree, and
--n_best gives Moses' n-best list, "number ||| tree ||| score" each.
"""

from absl import flags

from export import command
from export.errors import InputError
from export.lines.streams import answer_lines, line_format
from export.parsing.parser import Parser
from export.translators.batches import BATCH_TOKENS

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model", None, "Model directory of trainers.parsing.", required=True
)
flags.DEFINE_string(
    "input", None, "File of sentences; standard input by default."
)
flags.DEFINE_string(
    "output", None, "File for the trees; standard output by default."
)
flags.DEFINE_integer(
    "n_best", 1, "Trees of a sentence, at most the beam size.", lower_bound=1
)
flags.DEFINE_boolean("scores", False, "Write the score before the tree.")
flags.DEFINE_integer(
    "beam_size",
    None,
    "Trees that are followed at once; the model's own by default.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted.",
    lower_bound=1,
)


def main(arguments):
    """Parses a file or standard input."""
    del arguments
    parser = Parser.from_directory(
        FLAGS.model,
        beam_size=FLAGS.beam_size,
        batch_tokens=FLAGS.batch_tokens,
    )
    if FLAGS.n_best > parser.beam_size:
        raise InputError(
            f"--n_best={FLAGS.n_best} is more than the {parser.beam_size} "
            "beams; lower it, or raise --beam_size."
        )

    def ask(lines, on_progress):
        return parser.parse(lines, FLAGS.n_best, on_progress)

    form = line_format(FLAGS.n_best > 1, FLAGS.scores)
    return answer_lines("Parsing", FLAGS.input, FLAGS.output, ask, form)


if __name__ == "__main__":
    command.run(main)
