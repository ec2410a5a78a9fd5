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
blank text with score 0. A line that is longer than the model takes is
truncated; how many there were is said at the end.

Lines are read ahead in chunks, up to 4096; where the input pauses, those that
are there are answered. Whole lines only are written, at once. --compiled is
fastest where lines come one by one. "-" names the standard streams.

With --prefixes=FILE the translations of line N begin with line N of that file,
and are the best that do; its last word may continue. A blank line asks for
nothing. A translation that may not be so long ends within its prefix. A
character of which the vocabulary has no piece is refused; what the vocabulary
spells otherwise is said at the end.
"""

import sys

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.lines import line_flags
from export.translators import (
    search_flags,
    shortlist_flag,
    target_pieces_flag,
)
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from export.translators.text_ids import MAX_EXTRA, UnknownCharacter

FLAGS = flags.FLAGS

flags.adopt_module_key_flags(line_flags)
flags.adopt_module_key_flags(search_flags)
flags.adopt_module_key_flags(target_pieces_flag)
flags.adopt_module_key_flags(shortlist_flag)

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
    "each of a few lengths, some seconds each: the fastest where lines come "
    "one by one. A file is faster without.",
)
flags.DEFINE_string(
    "prefixes",
    None,
    "File of what translations begin with, a line for each of the input.",
)
flags.DEFINE_integer(
    "min_length",
    None,
    "Pieces that a translation has at least, 1 by default; with 0 a model in "
    "doubt may say nothing.",
    lower_bound=0,
    upper_bound=MAX_EXTRA,
)
flags.DEFINE_enum(
    "ensemble_mean",
    None,
    ["log_probabilities", "probabilities"],
    "What several models average at each step; log-probabilities by default.",
)

# Prefixes that are taken otherwise: how many are told, and so much of each.
_TOLD, _SHORT = 3, 30


def main(arguments):
    """Translates a file or standard input."""
    del arguments
    form = line_flags.line_format()
    translator = _translator()
    if FLAGS.n_best > translator.beam_size:
        raise InputError(
            f"--n_best={FLAGS.n_best} is more than the beam holds, "
            f"{translator.beam_size}; search a model directory with "
            f"--beam_size={FLAGS.n_best}, or ask for fewer."
        )
    if FLAGS.prefixes is None:
        line_flags.translate_stream(translator, form)
        return
    after = _PrefixLines(translator)
    beside = "prefixes", FLAGS.prefixes
    line_flags.translate_stream(after, form, beside)
    after.tell()


def _translator():
    if FLAGS.compiled and FLAGS["batch_tokens"].present:
        raise InputError(
            "--compiled takes one sentence at a time, and --batch_tokens says "
            "how many there are in a batch: leave out one of them."
        )
    wanted = [name for name in ("compiled", "prefixes") if FLAGS[name].value]
    return load_translator(
        FLAGS.model,
        FLAGS.batch_tokens,
        search_flags.given(
            *("min_length", "ensemble_mean"),
            *("target_pieces", "shortlist", "shortlist_size"),
        ),
        wanted,
    )


class _PrefixLines:
    """A translator of lines with prefixes, which notes how those are spelt."""

    def __init__(self, translator):
        self._translator = translator
        self._lines = 0
        self._first_changed, self._changed = [], 0

    def n_best(self, texts, n, on_progress, prefixes):
        self._check(prefixes)
        return self._translator.n_best(texts, n, on_progress, prefixes)

    def align(self, texts, on_progress, prefixes):
        self._check(prefixes)
        return self._translator.align(texts, on_progress, prefixes)

    def tell(self):
        """Says on standard error which prefixes were taken otherwise."""
        more = self._changed - len(self._first_changed)
        if self._changed:
            print(
                f"Taken as the vocabulary spells them: {self._changed:,} of "
                f"the prefixes ({', '.join(self._first_changed)}"
                + (f" and {more:,} more)." if more else ")."),
                file=sys.stderr,
                flush=True,
            )

    def _check(self, prefixes):
        try:
            spelt = self._translator.as_spelt(prefixes)
        except UnknownCharacter as error:
            code = f"U+{ord(error.character):04X}"
            raise InputError(
                f"Line {self._lines + error.place + 1} of --prefixes has "
                f"{error.character!r} ({code}), of which the model's "
                "vocabulary has no piece; leave it out, or write it otherwise."
            ) from None
        for line, (given, read) in enumerate(zip(prefixes, spelt), 1):
            if given != read:
                self._note(self._lines + line, given, read)
        self._lines += len(prefixes)

    def _note(self, line, given, read):
        self._changed += 1
        if len(self._first_changed) < _TOLD:
            short = [repr(_shortened(text)) for text in (given, read)]
            told = f"line {line}: {' as '.join(short)}"
            self._first_changed.append(told)


def _shortened(text):
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


if __name__ == "__main__":
    command.run(main)
