"""Draws translations: `python -m export.sample --model M < in > out`.

A translation is drawn piece by piece from the model's distribution, so one
sentence has many: for the source side of back-translated data (Edunov et al.
2018), or to see what a model holds possible. The input's Nth line, from 0, has
the seed --seed + N, so its samples depend on nothing else in the input.

A line gives a line, in order: the sample, or with --scores its log-probability
under the model, a tab, and the sample. With --samples=N above 1 a line gives N
lines of Moses' n-best format, "number ||| text ||| log-probability", in the
order drawn. A blank line gives one blank sample.
"""

import itertools

from absl import flags

import keras_transformer as kt
from export.common import command
from export.lines.formats import line_format
from export.lines.streams import answer_lines
from export.translators import sampling_flags
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_models
from export.translators.text_ids import MAX_EXTRA
from export.translators.translator import Translator

FLAGS = flags.FLAGS

flags.adopt_module_key_flags(sampling_flags)

flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory; given several times, models that decode together.",
    required=True,
)
flags.DEFINE_string("input", None, "File of lines; standard input by default.")
flags.DEFINE_string(
    "output", None, "File for the samples; standard output by default."
)
flags.DEFINE_integer("samples", 1, "Samples of a line.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Of the first line.", lower_bound=0)
flags.DEFINE_boolean("scores", False, "Write the log-probability first.")
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_output_extra",
    None,
    "Pieces that a sample may have more than its source.",
    lower_bound=0,
    upper_bound=MAX_EXTRA,
)

# Seeds are int32 that are not negative.
_SEEDS = 2**31


def main(arguments):
    """Draws samples for a file or standard input."""
    del arguments
    translator = Translator(
        *load_models(FLAGS.model),
        batch_tokens=FLAGS.batch_tokens,
        max_output_extra=FLAGS.max_output_extra,
    )
    rules = kt.SamplingConfig(
        FLAGS.samples, FLAGS.temperature, FLAGS.top_k, FLAGS.top_p
    )
    numbers = itertools.count(FLAGS.seed)

    def ask(texts, on_progress):
        seeds = [next(numbers) % _SEEDS for _ in texts]
        return translator.sample(texts, seeds, rules, on_progress)

    form = line_format(FLAGS.samples > 1, FLAGS.scores)
    answer_lines("Drawing", FLAGS.input, FLAGS.output, ask, form)


if __name__ == "__main__":
    command.run(main)
