"""Writes a version for TensorFlow Serving: `python -m export.saved_model`.

The folder E/<version>/ appears only when it is complete, so a server that
watches E never loads a partial version.
"""

import errno
import pathlib
import shlex
import typing

import tensorflow as tf
from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write, write_json
from export.model_directory import ModelDirectory
from export.serving.comparison import check_export
from export.serving.export_directory import (
    DESCRIPTION_FILES,
    LIMITS,
    WARM_UP_FILE,
    folder_size,
    make_description,
    make_warm_up_requests,
    read_description,
    read_task,
    version_number,
    write_warm_up_requests,
)
from export.serving.served_translator import ServedTranslator
from export.translators import output_vocabulary_files, search_flags

FLAGS = flags.FLAGS

search_flags.define_model_search()
search_flags.define_languages()
flags.DEFINE_string(
    "model_dir", None, "The model directory to export.", required=True
)
flags.DEFINE_string(
    "export_dir", None, "Folder of the model's versions.", required=True
)
flags.DEFINE_integer(
    "version", None, "Number of the version; the next free one by default."
)
flags.DEFINE_integer(
    "max_source_tokens",
    None,
    "Maximum number of tokens of a source, the end token included. Longer ones "
    "are truncated (256 by default), or refused by a parser (1024 by default).",
    lower_bound=2,
)
flags.DEFINE_boolean(
    "check",
    True,
    "Run export.check before the version gets its number; if it fails, nothing "
    "is written.",
)

# More than the tokens of a warm-up request.
_MIN_PARSER_TOKENS = 64
_SERVER_NAMES = {"translation": "translator", "parsing": "parser"}


def main(arguments: list[str]) -> None:
    """Writes a version and prints how to serve it."""
    del arguments
    directory = ModelDirectory(FLAGS.model_dir)
    export_dir = pathlib.Path(FLAGS.export_dir)
    path = export_dir / str(version_number(export_dir, FLAGS.version))
    search = search_flags.read_given_flags(
        (
            *search_flags.MODEL_SEARCH,
            *search_flags.LANGUAGES,
            "max_source_tokens",
        )
    )
    save(directory, path, search, FLAGS.check)
    name = _SERVER_NAMES[read_task(path)]
    signatures = ", ".join(read_description(path)["signatures"])
    megabytes = folder_size(path) / 1e6
    volume = f"{export_dir.resolve()}:/models/{name}"
    print(
        f"Wrote {path} ({megabytes:.1f} MB), signatures {signatures}.",
        "Serve it with the TensorFlow Serving image (see docs/serving.md):",
        f"  docker run --rm -p 8501:8501 -e MODEL_NAME={name} \\",
        f"    -v {shlex.quote(volume)} tensorflow/serving",
        sep="\n",
        flush=True,
    )


def save(
    directory: ModelDirectory,
    path: pathlib.Path,
    search: dict[str, typing.Any],
    check: bool = False,
) -> None:
    """Writes one version of an export.

    `directory` is a ModelDirectory, `path` the new folder of the version, and
    `search` a dict of arguments of ServedTranslator or ServedParser, with paths
    as in `load_output_vocabulary`. With `check`, export.check runs before the
    folder is renamed. Raises InputError if the model, the search or the check
    fails, or the files cannot be written.
    """
    servable = _create_servable(directory, search)
    description = make_description(directory, servable)
    signatures = servable.signatures()
    requests = make_warm_up_requests(
        servable.tokenizer, signatures, servable.languages
    )
    with atomic_write(path) as temporary:
        try:
            tf.saved_model.save(servable, str(temporary), signatures=signatures)
        except tf.errors.ResourceExhaustedError as error:
            raise OSError(errno.ENOSPC, error.message) from error
        (temporary / "assets.extra").mkdir()
        write_warm_up_requests(temporary / WARM_UP_FILE, requests)
        write_json(temporary / DESCRIPTION_FILES[servable.task], description)
        if servable.target_pieces is not None:
            text = output_vocabulary_files.format_target_pieces(
                servable.target_pieces, servable.tokenizer.target
            )
            file = temporary / output_vocabulary_files.TARGET_PIECES_FILE
            file.write_text(text, encoding="utf-8")
        if "shortlist" in search:
            output_vocabulary_files.copy_shortlist(
                search["shortlist"],
                temporary / output_vocabulary_files.SHORTLIST_FILE,
            )
        if check:
            check_export(directory.path, temporary)


def _create_servable(directory, search):
    if not directory.symbols_path.exists():
        return ServedTranslator.from_directory(directory, **search)
    # Not at the top: nltk takes seconds to load.
    from export.serving.served_parser import ServedParser

    for name in search.keys() - LIMITS["parsing"]:
        raise InputError(
            f"--{name} is for translators, not for the parser "
            f"{directory.path}; omit it."
        )
    limit = search.get("max_source_tokens", _MIN_PARSER_TOKENS)
    if limit < _MIN_PARSER_TOKENS:
        raise InputError(
            f"Expected --max_source_tokens of at least {_MIN_PARSER_TOKENS} "
            f"for a parser, got {limit}."
        )
    return ServedParser.from_directory(directory.path, **search)


if __name__ == "__main__":
    command.run(main)
