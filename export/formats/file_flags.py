"""Files as the operands of a command, each translated into a folder."""

import pathlib
import sys
import typing
from collections.abc import Sequence

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.packages import EXIT_INPUT_ERROR, explain_import_error
from export.common.progress_bar import ProgressBar
from export.common.storage import explain_read_errors, write_bytes
from export.formats.file_format import ENCODINGS, FileOptions
from export.formats.files import find_format, translate_file
from export.formats.memory import Memory
from export.lines import line_flags

FLAGS = flags.FLAGS
_FILE_FLAGS = (
    *("output_dir", "columns", "all_units", "encoding"),
    *("memory", "write_memory"),
)
# Those of `line_flags.define_translation`, and of commands that rerank.
_LINE_FLAGS = (
    *("input", "output", "n_best", "scores", "alignments", "confidence"),
    *("suspect", "document", "prefixes", "rerank", "rerank_command"),
)
# --help shows the flags under the module that calls the function.
flags.disclaim_key_flags()


def define_files() -> None:
    """Defines --output_dir and the other flags of files."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder of the translated files; none is overwritten.",
    )
    flags.DEFINE_list(
        "columns",
        [],
        "Columns of tables to translate, separated by commas: numbers from 1, "
        "or names in the first line; all by default.",
    )
    flags.DEFINE_boolean(
        "all_units",
        False,
        "Translate again what catalogs and XLIFF have a translation of.",
    )
    flags.DEFINE_enum(
        "encoding",
        None,
        ENCODINGS,
        "Encoding of text files; UTF-8 by default, or UTF-16 with its mark.",
    )
    flags.DEFINE_string(
        "memory",
        None,
        "Translation memory, TMX, whose exact matches are taken as they are.",
    )
    flags.DEFINE_string(
        "write_memory",
        None,
        "New translation memory, TMX, of --memory and all that was translated; "
        "the same file replaces it.",
    )


def validate_input(files: Sequence[str]) -> None:
    """Raises InputError for flags that are not for files, or are for files."""
    if not files:
        line_flags.validate_format()
        for name in _FILE_FLAGS:
            if FLAGS[name].present:
                raise InputError(
                    f"--{name} is for files: name them after the flags, or "
                    "omit it."
                )
        return
    if FLAGS.output_dir is None:
        raise InputError(
            "Files are translated to a folder: add --output_dir=DIR."
        )
    if given := line_flags.list_given_flags(_LINE_FLAGS):
        raise InputError(
            f"{', '.join(given)} is for lines: omit it, or the names of files."
        )
    path = FLAGS.write_memory
    if path is not None and path != FLAGS.memory:
        command.validate_new_path(pathlib.Path(path), "--write_memory")


def translate_files(
    translator: typing.Any, files: Sequence[str], terms: typing.Any
) -> int | None:
    """Translates each of the files to --output_dir; returns the exit code.

    What failed is listed at the end. `terms` are Terms, or None.
    """
    languages = translator.languages
    options = FileOptions(
        tuple(FLAGS.columns),
        FLAGS.all_units,
        languages.source,
        languages.target,
        FLAGS.encoding,
    )
    memory = None
    if FLAGS.memory is not None or FLAGS.write_memory is not None:
        memory = Memory(languages.source, languages.target)
        if FLAGS.memory is not None:
            memory.read(FLAGS.memory)
    failures = []
    for name in files:
        output = pathlib.Path(FLAGS.output_dir, pathlib.Path(name).name)
        try:
            command.validate_new_path(output, "--output_dir")
            with explain_read_errors(name):
                content = pathlib.Path(name).read_bytes()
            with ProgressBar(name, None, "sentences") as bar:
                translated = translate_file(
                    translator,
                    content,
                    find_format(name, FLAGS.format, content),
                    options,
                    bar.update,
                    terms,
                    FLAGS.keep_elements,
                    memory,
                )
            write_bytes(output, translated)
            print(output, flush=True)
        except (InputError, ImportError) as error:
            reason: str | None = str(error)
            if isinstance(error, ImportError):
                reason = explain_import_error(error)
            if reason is None:
                raise
            failures.append(f"{name}: {reason}")
    if memory is not None and FLAGS.write_memory is not None:
        memory.write(FLAGS.write_memory)
    if not failures:
        return None
    print(
        f"Error: {len(failures)} of {len(files)} files are not translated:",
        *failures,
        sep="\n",
        file=sys.stderr,
    )
    return EXIT_INPUT_ERROR
