"""Translates lines: `python -m export.translate --model M < in > out`.

M is a model directory, an exported version, or the folder of its versions
(the newest is taken). A line gives a line, in order:

  text                          by default
  score TAB text                with --scores
  text TAB alignment            with --alignments, words as in "0-0 1-2"
  score TAB text TAB alignment  with both

A score is log-probability / length penalty. With --n_best=N above 1 a line
gives up to N lines of Moses' n-best format, "number ||| text ||| score", best
first, where number counts the lines of the input from 0. A blank line gives
blank text with score 0. Of a line that is longer than the model takes the
beginning is translated; how many there were is said at the end.

Lines are read ahead in chunks, up to 4096; written at once, whole lines only.
From a terminal they are taken one by one; --compiled answers those soonest.

With --prefixes=FILE the translations of line N begin with line N of that file,
and are the best that do; its last word may go on. A blank line asks for
nothing. What would be longer than a translation may be ends on the way. A
character of which the vocabulary has no piece is refused; what the vocabulary
spells otherwise is said at the end.
"""

from absl import flags

from export import command
from export.errors import InputError
from export.lines import line_flags, search_flags
from export.lines.prefixes import PrefixLines
from export.lines.streams import answer_lines
from export.translators.batches import BATCH_TOKENS
from export.translators.load import (
    open_compiled_translator,
    open_prefix_translator,
    open_translator,
)
from export.translators.text_ids import MOST_EXTRA

FLAGS = flags.FLAGS

flags.adopt_module_key_flags(line_flags)
flags.adopt_module_key_flags(search_flags)

flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory or exported version; given several times, model "
    "directories of one vocabulary that decode together.",
    required=True,
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted: more is faster up to a point "
    "and takes more memory.",
    lower_bound=1,
)
flags.DEFINE_boolean(
    "compiled",
    False,
    "Translate one sentence at a time, with a search that XLA compiles for "
    "each of a few lengths, some seconds each: the soonest answer to lines "
    "that come one by one. A file goes sooner without.",
)
flags.DEFINE_string(
    "prefixes",
    None,
    "File of what translations begin with, a line for each of the input.",
)
# None is what the model's config says.
flags.DEFINE_integer("beam_size", None, "Beams.", lower_bound=1)
flags.DEFINE_float(
    "alpha", None, "Exponent of the length penalty.", lower_bound=0.0
)
flags.DEFINE_integer(
    "max_extra",
    None,
    "Pieces that a translation may have more than its source.",
    lower_bound=0,
    upper_bound=MOST_EXTRA,
)
flags.DEFINE_integer(
    "min_length",
    None,
    "Pieces that a translation has at least, 1 by default; with 0 a model in "
    "doubt may say nothing.",
    lower_bound=0,
)
flags.DEFINE_enum(
    "ensemble_mean",
    None,
    ["log_probabilities", "probabilities"],
    "What several models average at each step; log-probabilities by default.",
)

_SEARCH = (
    "beam_size",
    "alpha",
    "max_extra",
    "min_length",
    "stop",
    "ensemble_mean",
)

command.require_finite("alpha")


def main(arguments):
    """Translates a file or standard input."""
    del arguments
    line_format = line_flags.line_format()
    translator = _translator()
    if FLAGS.n_best > translator.beam_size:
        raise InputError(
            f"--n_best={FLAGS.n_best} is more than the beam holds, "
            f"{translator.beam_size}; search a model directory with "
            f"--beam_size={FLAGS.n_best}, or ask for fewer."
        )
    if FLAGS.prefixes is None:
        return line_flags.translate_stream(translator, line_format)

    after = PrefixLines(translator, FLAGS.n_best)
    code = answer_lines(
        "Translating",
        FLAGS.input,
        FLAGS.output,
        after.ask,
        line_format,
        ("prefixes", FLAGS.prefixes),
    )
    after.tell()
    return code


def _translator():
    search = {name: FLAGS[name].value for name in _SEARCH}
    search = {name: each for name, each in search.items() if each is not None}
    if FLAGS.prefixes is not None:
        _refuse_beside_prefixes()
        return open_prefix_translator(FLAGS.model, FLAGS.batch_tokens, search)
    if not FLAGS.compiled:
        return open_translator(FLAGS.model, FLAGS.batch_tokens, search)
    if FLAGS["batch_tokens"].present:
        raise InputError(
            "--compiled takes one sentence at a time, and --batch_tokens says "
            "how many there are in a batch: leave out one of them."
        )
    return open_compiled_translator(FLAGS.model, search)


def _refuse_beside_prefixes():
    for name in ("compiled", "alignments"):
        if FLAGS[name].value:
            raise InputError(
                f"--{name} is of a search that takes no prefixes: leave out "
                f"--{name} or --prefixes."
            )


if __name__ == "__main__":
    command.run(main)
