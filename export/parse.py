"""Parses sentences: `python -m export.parse --model M < in > out`.

M is a model directory of trainers.parsing. The input has one sentence per line,
with spaces between words and punctuation as in the Penn Treebank ("The protein
binds to DNA ."); with --tokenize=penn it is raw text. The output is one line
per sentence:

  tree                     by default, in brackets, over exactly these words
  score TAB tree           with --scores

A score is log-probability / length penalty. --n_best=N above 1 writes up to N
lines per sentence in Moses' n-best format, "number ||| tree ||| score", best
first; numbers count from 0. A blank line stays blank. To generate a treebank
for training another parser, use --skip_blank --output=new.train.ptb.
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
    "How to split lines into words: none at spaces; penn as the Penn Treebank, "
    "and at hyphens too if the parser has the tag HYPH.",
)
flags.DEFINE_boolean("pretty", False, "Indent each tree over several lines.")
flags.DEFINE_string(
    "svg",
    None,
    "New folder for a drawing of each tree: line-000001.svg for the first "
    "line, and with --n_best line-000001-tree-2.svg for its second tree.",
)
flags.DEFINE_boolean(
    "skip_blank", False, "Skip lines without words in the output."
)
flags.DEFINE_boolean(
    "resume",
    False,
    "Continue --output, if it exists, where the same command stopped.",
)


def main(arguments: list[str]) -> None:
    """Parses a file or standard input."""
    del arguments
    if FLAGS.resume:
        _validate_resume()
    # Not at the top: nltk and TensorFlow take seconds to load.
    from export.parsing.parser import Parser
    from export.parsing.tree_formats import tree_format

    format_lines = tree_format(
        FLAGS.n_best, FLAGS.scores, FLAGS.pretty, FLAGS.skip_blank, FLAGS.svg
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
    split_words = _select_word_splitter(parser)

    def parse(lines, on_progress):
        sentences = [" ".join(split_words(line)) for line in lines]
        return parser.parse(sentences, FLAGS.n_best, on_progress)

    count = _count_parsed_lines(split_words) if FLAGS.resume else 0
    process_lines(
        "Parsing",
        FLAGS.input,
        FLAGS.output,
        parse,
        format_lines,
        num_processed=count,
    )


def _select_word_splitter(parser):
    """Returns a function that splits a line into words."""
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
        raise InputError(
            "--resume needs one output line per sentence and no pictures; omit "
            "it, or --n_best, --pretty and --svg."
        )


def _count_parsed_lines(split_words):
    """Returns the number of --input lines whose tree is in --output."""
    from export.parsing.trees import read_tree, tree_words

    def has_output(line):
        return not FLAGS.skip_blank or bool(split_words(line))

    def is_parse(line, output_line):
        _, tab, tree = output_line.rpartition("\t")
        try:
            words = tree_words(read_tree(tree)) if tree else []
        except ValueError:
            return False
        has_score = tab != ""
        return has_score == FLAGS.scores and words == split_words(line)

    return count_processed_lines(
        FLAGS.input, FLAGS.output, has_output, is_parse
    )


if __name__ == "__main__":
    command.run(main)
