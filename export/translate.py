"""Translates lines: `python -m export.translate --model M < in > out`.

M is a model directory, an exported version, or the folder of its versions
(the newest is used). Each line gives one output line:

  text                          by default
  score TAB text                with --scores
  text TAB alignment            with --alignments, word pairs as in "0-0 1-2"
  score TAB text TAB alignment  with both

With --confidence one more column has the log-probability of each word; with
--suspect, why the translation may be wrong (docs/decoding.md).

A score is log-probability / length penalty. With --n_best=N above 1 each line
gives up to N lines of Moses' n-best format, "number ||| text ||| score", best
first; number is that of the input line, from 0. A blank line gives blank text
with score 0. Lines above the model's maximum length are truncated, and counted
at the end.

Lines are read in chunks of up to 4096; when the input pauses, the lines read so
far are translated. Only complete lines are written. --compiled has the lowest
latency for single sentences. "-" means standard input or output.

With --prefixes=FILE the translations of line N are the best that begin with
line N of FILE, whose last word may continue; a blank line is no prefix.
Translations are truncated to their maximum length even within a prefix.
Prefixes with characters that the vocabulary lacks are errors; prefixes that the
vocabulary spells differently are listed at the end.

With --document the input is one text, of which paragraphs, line ends,
indentation and lists stay as they are; with --format=html or xml also tags and
everything that is not text.

With --target_language=CODE a model of several languages translates into that
language, and --source_language=CODE is that of the text (docs/languages.md). A
line may begin with its own, as in ">>fra<< text".

With --terms=FILE the translation of a line that has a term of FILE, a line of
source TAB translation, contains that translation (docs/terms.md). With --keep
so it does the line's own addresses, emoji, numbers, placeholders or rare
characters; --placeholder=REGEX adds placeholders, also to those of documents.

`python -m export.translate --model M FILE… --output_dir=DIR` translates files
such as letter.docx and messages.po, each to DIR under its name
(docs/documents.md). What failed is listed at the end, with exit code 2.
"""

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import share_processors
from export.formats import file_flags
from export.formats.files import FORMATS
from export.lines import line_flags
from export.lines.streams import print_line_warning
from export.loading import load_translator
from export.translators import search_flags
from export.translators.batches import NUM_THREADS
from export.translators.translation import UnknownCharacterError

FLAGS = flags.FLAGS

line_flags.define_translation(("auto", *FORMATS))
search_flags.define_model_search()
search_flags.define_languages()
search_flags.define_terms()
search_flags.define_reranking()
search_flags.define_ensemble_mean()
search_flags.define_batch_tokens()
file_flags.define_files()
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory or exported version; repeat it for an ensemble of model "
    "directories with one vocabulary.",
    required=True,
)
flags.DEFINE_boolean(
    "compiled",
    False,
    "Translate one sentence at a time, by a search that XLA compiles for each "
    "of a few lengths, some seconds each: the lowest latency for single "
    "sentences. Files are translated faster without.",
)
flags.DEFINE_string(
    "prefixes",
    None,
    "File of the beginning of each translation, one per line of the input.",
)
flags.DEFINE_integer(
    "min_length",
    None,
    "Minimum number of tokens of a translation, 1 by default; with 0 the best "
    "translation may be empty.",
    lower_bound=0,
    upper_bound=search_flags.MAX_EXTRA_TOKENS,
)
# Longer prefixes are shortened in the warning of changed ones.
_MAX_PREFIX_LENGTH = 30


def main(arguments: list[str]) -> int | None:
    """Translates files, or standard input."""
    files = arguments[1:]
    file_flags.validate_input(files)
    if FLAGS.compiled and FLAGS["batch_tokens"].present:
        raise InputError(
            "--compiled translates one sentence at a time, without batches: "
            "omit --batch_tokens."
        )
    if FLAGS.compiled and FLAGS.quantization:
        raise InputError(
            f"XLA cannot compile products in {FLAGS.quantization}: omit "
            "--compiled or --quantization."
        )
    terms = search_flags.read_terms()
    if FLAGS.compiled and terms:
        raise InputError(
            "XLA does not compile searches with terms: omit --compiled, or "
            "--terms and --keep."
        )
    search = search_flags.read_given_flags(
        (
            *search_flags.MODEL_SEARCH,
            *("min_length", "ensemble_mean"),
            *search_flags.LANGUAGES,
        )
    )
    if FLAGS.compiled:
        search["compiled"] = True
    else:
        share_processors(NUM_THREADS)
    for name in ("target_pieces", "shortlist"):
        if FLAGS.prefixes is not None and name in search:
            raise InputError(
                f"--prefixes may have any token, but --{name} restricts the "
                "tokens of translations: omit one of them."
            )
    translator = load_translator(
        *FLAGS.model, batch_tokens=FLAGS.batch_tokens, **search
    )
    if files:
        return file_flags.translate_files(translator, files, terms)
    checker = _PrefixChecker(translator)
    if FLAGS.prefixes is not None:
        # An export refuses them before anything is read.
        checker.check([])
    if translator.beam_size < FLAGS.n_best:
        raise InputError(
            f"Expected --n_best up to the beam size, {translator.beam_size}, "
            f"got {FLAGS.n_best}."
        )
    line_flags.translate_stream(
        translator,
        FLAGS.prefixes,
        checker.check,
        terms,
        search_flags.read_reranking(),
    )
    checker.print_warning()
    return None


class _PrefixChecker:
    """Warns of prefixes that the vocabulary spells differently."""

    def __init__(self, translator):
        self._translator = translator
        self._num_lines = 0
        self._changes = []

    def check(self, prefixes):
        try:
            normalized = self._translator.normalize_prefixes(prefixes)
        except UnknownCharacterError as error:
            code = f"U+{ord(error.character):04X}"
            raise InputError(
                f"Line {self._num_lines + error.index + 1} of --prefixes has "
                f"{error.character!r} ({code}), which the model's vocabulary "
                "lacks; omit or replace it."
            ) from None
        for before, after in zip(prefixes, normalized):
            self._num_lines += 1
            if before != after:
                self._changes.append(
                    f"{self._num_lines}: {_shorten(before)!r} as "
                    f"{_shorten(after)!r}"
                )

    def print_warning(self):
        print_line_warning(
            "Prefixes that the vocabulary spells differently",
            len(self._changes),
            self._changes[:3],
        )


def _shorten(text):
    if len(text) <= _MAX_PREFIX_LENGTH:
        return text
    return f"{text[:_MAX_PREFIX_LENGTH]}…"


if __name__ == "__main__":
    command.run(main, operands=None)
