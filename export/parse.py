"""Parses sentences: `python -m export.parse --model M < in > out`.

M is a model directory of trainers.parsing. Each line is a sentence, with spaces
between words and punctuation as in the Penn Treebank ("The protein binds to
DNA ."); with --tokenize=penn it is raw text. Each line gives one output line:

  tree                     by default, in brackets, over exactly these words
  score TAB tree           with --scores

A score is log-probability / length penalty. With --n_best=N above 1 each line
gives up to N lines of Moses' n-best format, "number ||| tree ||| score", best
first; number counts the input lines from 0. A blank line gives a blank line, or
no line with --skip_blank, as in treebanks.

Silver trees for training another parser: --skip_blank --output=new.train.ptb.
"""

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.lines import line_flags
from export.lines.streams import count_processed_lines, process_lines
from export.translators import search_flags

FLAGS = flags.FLAGS

line_flags.define_files()
line_flags.define_n_best()
line_flags.define_scores()
search_flags.define_beam_size()
search_flags.define_ensemble_mean()
search_flags.define_batch_tokens()
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory of trainers.parsing; repeat it for an ensemble of one "
    "vocabulary.",
    required=True,
)
flags.DEFINE_enum(
    "tokenize",
    "none",
    ["none", "penn"],
    "How lines become words: penn splits raw text as the Penn Treebank does, "
    "and at hyphens too where the parser has the tag HYPH.",
)
flags.DEFINE_boolean(
    "pretty",
    False,
    "Indent each tree over several lines, after its score if there is one.",
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
    "Continue --output where a command with the same flags stopped; a missing "
    "file is begun.",
)


def main(arguments):
    """Parses a file or standard input."""
    del arguments
    if FLAGS.resume:
        _validate_resume()
    # Not at the top: nltk and TensorFlow take seconds to load.
    from export.parsing.parser import Parser
    from export.parsing.tree_formats import tree_format

    form = tree_format(
        FLAGS.n_best > 1,
        FLAGS.scores,
        FLAGS.pretty,
        FLAGS.skip_blank,
        FLAGS.svg,
    )
    parser = Parser.from_directory(
        *FLAGS.model,
        ensemble_mean=FLAGS.ensemble_mean,
        beam_size=FLAGS.beam_size,
        batch_tokens=FLAGS.batch_tokens,
    )
    if FLAGS.n_best > parser.beam_size:
        raise InputError(
            f"Expected --n_best up to the beam size, {parser.beam_size}, got "
            f"{FLAGS.n_best}."
        )
    split = _word_splitter(parser)
    answered = _count_processed(split) if FLAGS.resume else 0

    def parse(lines, on_progress):
        sentences = [" ".join(split(line)) for line in lines]
        return parser.parse(sentences, FLAGS.n_best, on_progress)

    process_lines(
        "Parsing",
        FLAGS.input,
        FLAGS.output,
        parse,
        form,
        num_processed=answered,
    )


def _word_splitter(parser):
    """Returns the function that splits a line into words."""
    from export.parsing import word_tokenizer

    if FLAGS.tokenize == "none":
        return word_tokenizer.split_at_spaces
    # Hyphens are words in treebanks with this part-of-speech tag.
    if "HYPH" in parser.symbols.tags:
        return word_tokenizer.ontonotes_tokenize
    return word_tokenizer.penn_tokenize


def _validate_resume():
    if FLAGS.input is None or FLAGS.output is None:
        raise InputError("--resume needs --input and --output.")
    if FLAGS.n_best > 1 or FLAGS.pretty or FLAGS.svg:
        raise InputError("Omit --resume, or --n_best, --pretty and --svg.")


def _count_processed(split):
    """Returns the number of lines of --input that --output answers."""
    from export.parsing.trees import read_tree, tree_words
    from export.parsing.word_tokenizer import split_at_spaces

    def has_answer(line):
        return not FLAGS.skip_blank or bool(split_at_spaces(line))

    def fits(line, answer):
        _, tab, tree = answer.rpartition("\t")
        try:
            words = tree_words(read_tree(tree)) if tree else []
        except ValueError:
            return False
        return bool(tab) == FLAGS.scores and words == split(line)

    return count_processed_lines(FLAGS.input, FLAGS.output, has_answer, fits)


if __name__ == "__main__":
    command.run(main)
