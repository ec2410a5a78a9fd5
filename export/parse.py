"""Parses sentences: `python -m export.parse --model M < in > out`.

M is a model directory of trainers.parsing. A line is a sentence, its words and
punctuation separated by spaces as in the Penn Treebank ("The protein binds to
DNA ."); --tokenize=penn takes raw text, still a sentence a line. A line gives
a line, in order:

  tree                     by default, in brackets, over exactly the words
  score TAB tree           with --scores

A score is log-probability / length penalty. With --n_best=N above 1 a line
gives up to N lines of Moses' n-best format, "number ||| tree ||| score", best
first, where number counts the lines of the input from 0. A blank line gives no
tree: a blank line, or no line at all with --skip_blank, as treebanks have none.

--pretty is for reading: the tree on several lines, indented, after a line with
"score" or "number ||| score" where those are asked for, and a blank line after
each. --svg=DIR draws the trees as well.

Silver trees, to train another parser on: --skip_blank --output=new.train.ptb.
With --resume a command that was stopped goes on after the last line of its
--output, which has whole lines only.
"""

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.lines.streams import answer_lines
from export.lines.unfinished import lines_answered
from export.translators.batches import BATCH_TOKENS
from export.translators.text_ids import MAX_BEAMS

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory of trainers.parsing; given several times, model "
    "directories of one vocabulary that parse together.",
    required=True,
)
flags.DEFINE_string(
    "input", None, "File of sentences; standard input by default."
)
flags.DEFINE_string(
    "output",
    None,
    "File for the trees, written anew; standard output by default.",
)
flags.DEFINE_enum(
    "tokenize",
    "none",
    ["none", "penn"],
    "How lines become words: none where spaces separate them already; penn "
    "splits raw text as the Penn Treebank does, and at hyphens too where the "
    "parser has the tag HYPH, as newer treebanks do.",
)
flags.DEFINE_integer(
    "n_best", 1, "Trees of a sentence, at most the beam size.", lower_bound=1
)
flags.DEFINE_boolean("scores", False, "Write the score before the tree.")
flags.DEFINE_boolean(
    "pretty", False, "Write each tree on several lines, indented."
)
flags.DEFINE_string(
    "svg",
    None,
    "New folder for a drawing of each tree: line-000001.svg is of the first "
    "line, and with --n_best line-000001-tree-2.svg of its second tree.",
)
flags.DEFINE_boolean(
    "skip_blank", False, "Write nothing for a line without words."
)
flags.DEFINE_boolean(
    "resume",
    False,
    "Go on with --output from where a command with the same flags stopped; "
    "one that is not there is begun.",
)
flags.DEFINE_enum(
    "ensemble_mean",
    None,
    ["log_probabilities", "probabilities"],
    "What several models average at each step; log-probabilities by default.",
)
flags.DEFINE_integer(
    "beam_size",
    None,
    "Trees that are followed at once; the model's own by default.",
    lower_bound=1,
    upper_bound=MAX_BEAMS,
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
    _check_resume()
    # nltk and TensorFlow take seconds to load.
    from export.parsing.tree_formats import tree_format

    form = tree_format(
        *(FLAGS.n_best > 1, FLAGS.scores),
        *(FLAGS.pretty, FLAGS.skip_blank, FLAGS.svg),
    )
    parser = _parser()
    words = _reader(parser)
    answered = _answered(words) if FLAGS.resume else 0

    def ask(lines, on_progress):
        sentences = [" ".join(words(line)) for line in lines]
        return parser.parse(sentences, FLAGS.n_best, on_progress)

    answer_lines(
        *("Parsing", FLAGS.input, FLAGS.output, ask, form), answered=answered
    )


def _parser():
    from export.parsing.parser import Parser

    parser = Parser.from_directory(
        *FLAGS.model,
        ensemble_mean=FLAGS.ensemble_mean,
        beam_size=FLAGS.beam_size,
        batch_tokens=FLAGS.batch_tokens,
    )
    if FLAGS.n_best > parser.beam_size:
        raise InputError(
            f"--n_best={FLAGS.n_best} is more than the {parser.beam_size} "
            "beams; lower it, or raise --beam_size."
        )
    return parser


def _reader(parser):
    """Returns the function that splits a line into words."""
    from export.parsing import penn_tokenizer

    if FLAGS.tokenize == "none":
        return penn_tokenizer.split_at_spaces
    return penn_tokenizer.tokenizer_for_tags(parser.symbols.tags)


def _check_resume():
    if not FLAGS.resume:
        return
    if FLAGS.input is None or FLAGS.output is None:
        raise InputError(
            "--resume goes on with a file: give both --input and --output."
        )
    asked = {
        "--n_best": FLAGS.n_best > 1,
        "--pretty": FLAGS.pretty,
        "--svg": FLAGS.svg is not None,
    }
    for name, value in asked.items():
        if value:
            raise InputError(
                f"--resume goes on where each sentence has one line, and "
                f"{name} asks for more; leave out one of them."
            )


def _answered(words_of):
    """Returns how many lines of --input --output has the answers to."""
    from export.parsing.penn_tokenizer import split_at_spaces
    from export.parsing.trees import read_tree, tree_words

    def has_answer(line):
        return not FLAGS.skip_blank or bool(split_at_spaces(line))

    def fits(line, answer):
        before, tab, tree = answer.rpartition("\t")
        try:
            found = tree_words(read_tree(tree)) if tree else []
        except ValueError:
            return False
        return bool(tab) == FLAGS.scores and found == words_of(line)

    return lines_answered(FLAGS.input, FLAGS.output, has_answer, fits)


if __name__ == "__main__":
    command.run(main)
