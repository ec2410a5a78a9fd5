"""Times a parser's search with the grammar beside one without it.

    python benchmarks/grammar.py --model_dir=runs/craft --trees=craft.dev.ptb.gz

Both take the same steps on the same sentences, since none stops before the
last; they take turns, and each round gives a ratio. What is printed is the
median and the quarters' bounds.
"""

import dataclasses
import functools
import os
import pathlib
import sys
import time

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.harness import report
from export import command
from export.errors import InputError
from export.lines.files import read_lines

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The parser.", required=True)
flags.DEFINE_string("trees", None, "Trees, for their words.", required=True)
flags.DEFINE_list("beams", ["4", "21"], "Beams of the searches.")
flags.DEFINE_integer("sentences", 8, "How many at a time.", lower_bound=1)
flags.DEFINE_integer("steps", 60, "Steps of each search.", lower_bound=16)
flags.DEFINE_integer("rounds", 15, "Turns of each.", lower_bound=2)
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")


def main(_):
    """Runs the command."""
    from export.parsing.parser import Parser

    sentences = _sentences()
    before = os.getloadavg()[0]
    rows = []
    for beam in map(int, FLAGS.beams):
        parser = Parser.from_directory(FLAGS.model_dir, beam_size=beam)
        ratio = report.ratio(*_seconds(parser, sentences))
        rows.append([str(beam), f"{ratio:.3f}"])
    header = ["beam", "time with the grammar / without"]
    lines = [
        report.line("benchmarks/grammar.py", sys.argv[1:], "tensorflow"),
        "",
        report.markdown(header, "rr", rows),
        "",
        f"{FLAGS.sentences} sentences, {FLAGS.steps} steps; load average "
        f"{before:.1f} before, {os.getloadavg()[0]:.1f} after.",
    ]
    report.publish("\n".join(lines), FLAGS.output)


def _sentences():
    """Returns the first sentences that fit the steps: lists of words."""
    from export.parsing.trees import read_tree, words

    found = []
    for line in read_lines(FLAGS.trees):
        its = words(read_tree(line))
        # A third of the symbols are tags, and some steps close brackets.
        if FLAGS.steps // 6 <= len(its) <= FLAGS.steps // 3:
            found.append(list(its))
        if len(found) == FLAGS.sentences:
            return found
    raise InputError(f"{FLAGS.trees} has no {FLAGS.sentences} such sentences.")


def _seconds(parser, sentences):
    """Returns the seconds of the rounds with the grammar, and without."""
    import tensorflow as tf

    import keras_transformer as kt
    from export.translators.id_translator import ForwardedCache
    from export.translators.text_ids import padded

    ids = parser.tokenizer.encode([" ".join(each) for each in sentences])
    request = (
        tf.constant(padded(ids)),
        tf.constant([len(each) for each in sentences]),
        tf.constant(FLAGS.steps),
    )
    held = dataclasses.replace(parser.rules, stop="never")
    free = dataclasses.replace(held, grammar=None)

    def search(rules, source, words, steps):
        longest = tf.zeros_like(words) + steps
        state = () if rules is free else rules.grammar.start(words, longest)
        return kt.translate_ids_in_segments(
            *(parser.model, source, steps),
            kt.Constraints(longest, grammar=state),
            rules,
            cache=ForwardedCache,
        ).scores

    # Sentences may leave, so that their number is open.
    shapes = [None, None], [None], []
    signature = [tf.TensorSpec(shape, tf.int32) for shape in shapes]
    searches = [
        tf.function(
            functools.partial(search, rules),
            input_signature=signature,
            autograph=False,
        )
        for rules in (held, free)
    ]
    seconds = [[], []]
    for number in range(FLAGS.rounds + 1):
        turn = range(2) if number % 2 else reversed(range(2))
        for which in turn:
            started = time.perf_counter()
            searches[which](*request).numpy()
            # The first round is a warm-up.
            if number:
                seconds[which].append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    command.run(main)
