"""Samples translations: `python -m export.sample --model M < in > out`.

Each translation is sampled token by token from the model's distribution: for
the source side of back-translated data (Edunov et al. 2018), or to see what a
model considers possible. Input line N, counted from 0, has the seed --seed + N,
so its samples do not depend on the other lines.

Each line gives one output line: the sample, or with --scores its
log-probability, a tab and the sample. With --samples=N above 1 each line gives
N lines of Moses' n-best format, "number ||| text ||| log-probability", in the
order of sampling. A blank line gives one blank sample. With --rerank or
--rerank_command each line gives only the best of its samples.
"""

import itertools

from absl import flags

import keras_transformer as kt
from export.common import command
from export.lines import line_flags
from export.lines.streams import line_format, process_lines
from export.loading import load_translator
from export.translators import search_flags

FLAGS = flags.FLAGS

line_flags.define_files()
line_flags.define_scores()
search_flags.define_sampling()
search_flags.define_max_extra_tokens()
search_flags.define_batch_tokens()
search_flags.define_languages()
search_flags.define_reranking()
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory; repeat it for an ensemble.",
    required=True,
)
flags.DEFINE_integer(
    "samples",
    1,
    "Samples per line.",
    lower_bound=1,
    upper_bound=1_000_000,
)
flags.DEFINE_integer("seed", 1, "Seed of the first line.", lower_bound=0)

# Seeds are non-negative int32.
_NUM_SEEDS = 2**31


def main(arguments: list[str]) -> None:
    """Samples translations of a file or standard input."""
    del arguments
    translator = load_translator(
        *FLAGS.model,
        batch_tokens=FLAGS.batch_tokens,
        **search_flags.read_given_flags(
            ("max_extra_tokens", *search_flags.LANGUAGES)
        ),
    )
    config = kt.SamplingConfig(
        FLAGS.samples, FLAGS.temperature, FLAGS.top_k, FLAGS.top_p
    )
    seeds, rerank = itertools.count(FLAGS.seed), search_flags.read_reranking()

    def sample(texts, on_progress):
        text_seeds = [next(seeds) % _NUM_SEEDS for _ in texts]
        rows = translator.sample(texts, text_seeds, config, on_progress)
        return rerank(texts, rows) if rerank else rows

    process_lines(
        "Sampling",
        FLAGS.input,
        FLAGS.output,
        sample,
        line_format(FLAGS.samples > 1 and not rerank, FLAGS.scores),
    )


if __name__ == "__main__":
    command.run(main)
