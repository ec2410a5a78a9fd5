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
"""

import contextlib
import itertools
import os
import pathlib
import sys

from absl import flags

from export import command, line_formats
from export.batches import BATCH_TOKENS
from export.errors import InputError
from export.opening import open_translator
from export.progress_bar import ProgressBar
from export.translate_lines import chunk_sizes, read_lines, translate_lines
from export.whole_lines import WholeLines

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model", None, "Model directory or exported version.", required=True
)
flags.DEFINE_string(
    "input", None, "File of lines to translate; standard input by default."
)
flags.DEFINE_string(
    "output",
    None,
    "File for the translations, written anew; standard output by default.",
)
flags.DEFINE_integer(
    "n_best",
    1,
    "Translations of a line, at most the beam size.",
    lower_bound=1,
)
flags.DEFINE_boolean("scores", False, "Write the score before the text.")
flags.DEFINE_boolean(
    "alignments",
    False,
    "Write after the text which source word each word is from.",
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted: more is faster up to a point "
    "and takes more memory.",
    lower_bound=1,
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
)
flags.DEFINE_integer(
    "min_length", None, "Pieces that a translation has at least.", lower_bound=0
)
flags.DEFINE_enum(
    "stop",
    None,
    ["certain", "finished"],
    "When a sentence ends: as soon as its result is certain (the default), or "
    "with as many finished translations as there are beams, which is sooner "
    "and may miss a better one.",
)

_SEARCH = ("beam_size", "alpha", "max_extra", "min_length", "stop")
# What a shell says of a process whose reader has gone: 128 + SIGPIPE.
_READER_HAS_GONE = 141


def main(arguments):
    """Translates a file or standard input."""
    del arguments
    line_format = _line_format()
    search = {name: FLAGS[name].value for name in _SEARCH}
    translator = open_translator(
        FLAGS.model,
        FLAGS.batch_tokens,
        {name: each for name, each in search.items() if each is not None},
    )
    if FLAGS.n_best > translator.beam_size:
        raise InputError(
            f"--n_best={FLAGS.n_best} is more than the beam holds, "
            f"{translator.beam_size}; search a model directory with "
            f"--beam_size={FLAGS.n_best}, or ask for fewer."
        )
    with contextlib.ExitStack() as stack:
        source = _open_input(stack)
        output = _open_output(stack)
        on_progress = _progress(stack)
        try:
            first_cut, cut = translate_lines(
                read_lines(source),
                lambda texts: _ask(translator, texts, on_progress),
                line_format,
                output.write,
                itertools.repeat(1) if source.isatty() else chunk_sizes(),
            )
        except BrokenPipeError:
            return _READER_HAS_GONE
    if cut:
        _tell_of_cuts(first_cut, cut)
    return None


def _line_format():
    if FLAGS.n_best > 1:
        if FLAGS.alignments:
            raise InputError(
                "--alignments are of the best translation alone; leave out "
                "--n_best, or ask for them in a run of their own."
            )
        return line_formats.n_best
    return {
        (False, False): line_formats.texts,
        (True, False): line_formats.scored,
        (False, True): line_formats.aligned,
        (True, True): line_formats.scored_and_aligned,
    }[FLAGS.scores, FLAGS.alignments]


def _ask(translator, texts, on_progress):
    if FLAGS.alignments:
        return [[best] for best in translator.align(texts, on_progress)]
    return translator.n_best(texts, FLAGS.n_best, on_progress)


def _open_input(stack):
    if FLAGS.input is None:
        return sys.stdin.buffer
    try:
        return stack.enter_context(pathlib.Path(FLAGS.input).open("rb"))
    except OSError as error:
        raise InputError(
            f"--input={FLAGS.input} cannot be read: {error.strerror}."
        ) from error


def _open_output(stack):
    if FLAGS.output is None:
        return WholeLines(sys.stdout.fileno(), "Standard output")
    path = pathlib.Path(FLAGS.output)
    if FLAGS.input is not None and path.exists() and path.samefile(FLAGS.input):
        raise InputError(
            "--input and --output are one file, which would be lost; name "
            "another --output."
        )
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        descriptor = os.open(path, how, 0o666)
    except OSError as error:
        raise InputError(
            f"--output={path} cannot be written: {error.strerror}."
        ) from error
    stack.callback(os.close, descriptor)
    return WholeLines(descriptor, str(path))


def _progress(stack):
    """Returns what sentences are counted with, or None."""
    # A bar among the translations would make both unreadable.
    if FLAGS.output is None and sys.stdout.isatty():
        return None
    bar = ProgressBar("Translating", None, "sentences")
    return stack.enter_context(bar).update


def _tell_of_cuts(first_cut, cut):
    numbers = ", ".join(map(str, first_cut))
    more = f" and {cut - len(first_cut):,} more" if cut > len(first_cut) else ""
    print(
        "Longer than the model takes, and translated only as far: "
        f"{cut:,} of the lines ({numbers}{more}).",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    command.run(main)
