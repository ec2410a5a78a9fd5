"""Flags of commands that read and write lines.

The functions define_* define flags for the module that calls them.
"""

import dataclasses
import itertools
import sys
import typing
from collections.abc import Callable, Sequence

from absl import flags

from export.common.errors import InputError
from export.lines.file_formats import MARKUP, detect_format
from export.lines.streams import (
    line_format,
    print_line_warning,
    process_document,
    process_lines,
)

FLAGS = flags.FLAGS
# Those of standard input.
_DOCUMENT_FORMATS = ("text", "html", "xml")
_MARKUP_FORMATS = _DOCUMENT_FORMATS[1:]
# --help shows the flags under the module that calls a function.
flags.disclaim_key_flags()


def define_files() -> None:
    """Defines --input and --output."""
    flags.DEFINE_string(
        "input", None, "File of lines to read; standard input by default."
    )
    flags.DEFINE_string(
        "output",
        None,
        "File of lines to write, overwritten; standard output by default.",
    )


def define_scores() -> None:
    """Defines --scores."""
    flags.DEFINE_boolean("scores", False, "Write the score before the text.")


def define_n_best() -> None:
    """Defines --n_best."""
    flags.DEFINE_integer(
        "n_best",
        1,
        "Number of results per line, at most the beam size.",
        lower_bound=1,
    )


def define_translation(formats: Sequence[str] = _DOCUMENT_FORMATS) -> None:
    """Defines the flags of `translate_stream`.

    The first of `formats`, values of --format, is the default.
    """
    define_files()
    define_n_best()
    define_scores()
    flags.DEFINE_boolean(
        "alignments", False, "Write word alignments after the text."
    )
    flags.DEFINE_boolean(
        "confidence",
        False,
        "Write the log-probability of each word of the translation at the end "
        "of the line.",
    )
    flags.DEFINE_boolean(
        "suspect",
        False,
        "Write at the end of the line why the translation may be wrong: short, "
        "long, repeating, copied, script, or nothing.",
    )
    flags.DEFINE_boolean(
        "document",
        False,
        "Translate the sentences of a whole document instead of lines; "
        "paragraphs, line ends, indentation and lists stay.",
    )
    flags.DEFINE_enum(
        "format",
        formats[0],
        formats,
        "Format of the document, with auto by the ending of its name; html "
        "and xml imply --document. Tags and placeholders are kept.",
    )
    flags.DEFINE_list(
        "keep_elements",
        [],
        "Names of elements of the document, separated by commas, that are not "
        "translated.",
    )


def list_given_flags(names: Sequence[str]) -> list[str]:
    """Returns the flags that the user gave, of the ones the command has."""
    return [
        f"--{name}" for name in names if name in FLAGS and FLAGS[name].present
    ]


def validate_format() -> None:
    """Raises InputError for incompatible flags of `define_translation`."""
    for name in ("alignments", "confidence", "suspect"):
        if FLAGS[name].value and FLAGS.n_best > 1:
            raise InputError(
                f"--{name} is for the best translation only; omit --n_best, or "
                "run the command twice."
            )
    for name in "alignments", "confidence", "document":
        if FLAGS[name].value and _is_reranked():
            raise InputError(
                f"--{name} is for the best translation of the search; omit it, "
                "or --rerank and --rerank_command."
            )
    if _is_document():
        names = (
            *("n_best", "scores", "alignments", "confidence", "suspect"),
            "prefixes",
        )
        if given := list_given_flags(names):
            raise InputError(
                f"A document has no lines for {', '.join(given)}: omit it, or "
                "--document and --format."
            )
    elif (
        "placeholder" in FLAGS
        and FLAGS.placeholder
        and "placeholders" not in FLAGS.keep
    ):
        raise InputError(
            "--placeholder is for documents and --keep=placeholders: give one "
            "of --document, --format and --keep=placeholders with it."
        )
    if FLAGS.format not in ("auto", *_DOCUMENT_FORMATS):
        raise InputError(
            f"--format={FLAGS.format} is for files: name them after the flags, "
            "with --output_dir, or give --format=text, html or xml."
        )
    if FLAGS.keep_elements and FLAGS.format not in _MARKUP_FORMATS:
        raise InputError(
            "--keep_elements names elements of markup: add --format=html or "
            "--format=xml, or omit it."
        )


def _is_reranked():
    names = "rerank", "rerank_command"
    return any(name in FLAGS and FLAGS[name].value for name in names)


def _is_document():
    return FLAGS.document or FLAGS.format in _MARKUP_FORMATS


def _validate_content(text):
    """Raises InputError for input that is no text, unless --format says it is.

    What --format=html reads without a tag is a warning, as are lines.
    """
    is_named = FLAGS["format"].present and FLAGS.format != "auto"
    if is_named and (FLAGS.format != "html" or "<" in text):
        return
    found = detect_format(text)
    if found is None:
        return
    advice = "take its texts out of it"
    if found in MARKUP:
        advice = f"give --format={'xml' if found == 'XML' else 'html'}"
    message = (
        f"The input is {found}; everything in it would be translated, names "
        f"and marks too: {advice}, or give --format=text if it is text."
    )
    if is_named or not FLAGS.document:
        print(f"Warning: {message}", file=sys.stderr, flush=True)
    else:
        raise InputError(message)


def translate_stream(
    translator: typing.Any,
    prefix_file: str | None = None,
    on_prefixes: Callable[[list[str]], object] | None = None,
    terms: typing.Any = None,
    rerank: Callable[[list[str], list], list] | None = None,
) -> None:
    """Translates the lines or the document of --input to --output.

    With `prefix_file`, the path of --prefixes, `on_prefixes` is called with the
    list of prefixes of each chunk of lines. `terms` are Terms, or None, and
    `rerank` a function of the module `reranking`, or None.
    """
    changes = _ItemChanges()
    if _is_document():

        def translate_document(text, on_progress):
            _validate_content(text)
            return translator.translate_document(
                text,
                FLAGS.format if FLAGS.format in _MARKUP_FORMATS else "text",
                on_progress,
                terms,
                FLAGS.keep_elements,
                changes.add,
            )

        process_document(
            "Translating", FLAGS.input, FLAGS.output, translate_document
        )
        changes.print_warning()
        return
    parallel = None if prefix_file is None else ("prefixes", prefix_file)
    numbers = itertools.count(1)

    is_first = True

    def translate(chunk, on_progress):
        nonlocal is_first
        texts, prefixes = chunk, None
        if parallel is not None:
            # Each item is a line of --input and one of --prefixes.
            texts, prefixes = map(list, zip(*chunk))
            on_prefixes(prefixes)
        if is_first:
            _validate_content("\n".join(texts))
            is_first = False
        if FLAGS.alignments or FLAGS.confidence:
            translations = translator.align(texts, on_progress, prefixes, terms)
            rows = [[each] for each in translations]
        else:
            n = translator.beam_size if rerank else FLAGS.n_best
            rows = translator.n_best(texts, n, on_progress, prefixes, terms)
            if rerank:
                rows = [row[: FLAGS.n_best] for row in rerank(texts, rows)]
        if FLAGS.suspect:
            rows = _mark_suspects(translator, texts, rows)
        if terms and terms.keep:
            for number, text, row in zip(numbers, texts, rows):
                for item in terms.find_changes(text, row[0].text):
                    changes.add(number, item)
        return rows

    process_lines(
        "Translating",
        FLAGS.input,
        FLAGS.output,
        translate,
        line_format(
            FLAGS.n_best > 1,
            FLAGS.scores,
            FLAGS.alignments,
            FLAGS.confidence,
            FLAGS.suspect,
        ),
        parallel,
    )
    changes.print_warning()


def _mark_suspects(translator, texts, rows):
    """Returns the best of each row of Translations with `suspect`, in lists."""
    best = [row[0] for row in rows]
    reasons = translator.find_suspicions(texts, [each.text for each in best])
    return [
        [dataclasses.replace(each, suspect=reason)]
        for each, reason in zip(best, reasons)
    ]


class _ItemChanges:
    """Warns of lines whose translations have items less or more often."""

    def __init__(self):
        self._lines, self._examples = set(), []

    def add(self, line, item):
        if line not in self._lines and len(self._lines) < 3:
            self._examples.append(f"{line}: {item!r}")
        self._lines.add(line)

    def print_warning(self):
        print_line_warning(
            "Kept items or placeholders that are not as often in the "
            "translation as in the text",
            len(self._lines),
            self._examples,
        )
