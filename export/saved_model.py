"""Writes a SavedModel for TensorFlow Serving: `python -m export.saved_model`.

E/<version>/ appears under its number only when it is whole, so a server that
watches E never loads half of one.
"""

import errno
import json
import pathlib
import shlex
import subprocess
import sys

import tensorflow as tf
from absl import flags

from export import command
from export.errors import InputError
from export.files.atomic import written_whole
from export.model_directory import ModelDirectory
from export.server_runtime.saved_model import (
    DESCRIPTION_FILES,
    is_version,
    task_of,
)
from export.serving.description import describe, describe_signatures
from export.serving.served_translator import ServedTranslator
from export.serving.warm_up import WARM_UP_FILE, make_warm_up
from export.translators import (
    search_flags,
    shortlist,
    shortlist_flag,
    target_pieces,
    target_pieces_flag,
)

FLAGS = flags.FLAGS

for module in (search_flags, target_pieces_flag, shortlist_flag):
    flags.adopt_module_key_flags(module)

flags.DEFINE_string(
    "model_dir", None, "The model directory to export.", required=True
)
flags.DEFINE_string(
    "export_dir", None, "Folder of the versions.", required=True
)
flags.DEFINE_integer(
    "version", None, "Number of the version; the next free one by default."
)
flags.DEFINE_integer(
    "max_source_tokens",
    None,
    "Longer sources are cut to this many pieces, the end counted; 256 by "
    "default. A parser refuses longer ones; 1024 by default.",
    lower_bound=2,
)
flags.DEFINE_boolean(
    "check",
    True,
    "Run export.check before the version gets its number; where it fails, "
    "nothing is written.",
)


# More than a warm-up request has.
_LEAST_OF_A_PARSER = 64
# Of each task: a name for the server, and the signatures.
_SERVED = {
    "translation": (
        "translator",
        "text -> translation, score; n_best, align, score, tokens, lengths",
    ),
    "parsing": ("parser", "text -> tree, score; n_best"),
}


def main(arguments):
    """Exports and says how to serve."""
    del arguments
    directory = ModelDirectory(FLAGS.model_dir)
    export_dir = pathlib.Path(FLAGS.export_dir)
    path = export_dir / str(_version(export_dir, FLAGS.version))
    search = search_flags.given(
        *("max_source_tokens", "target_pieces", "shortlist", "shortlist_size")
    )
    checks = [_check] if FLAGS.check else []
    save(directory, path, search, checks)
    name, signatures = _SERVED[task_of(path)]
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    volume = f"{export_dir.resolve()}:/models/{name}"
    print(
        f"Wrote {path} ({size / 1e6:.1f} MB), signatures serving_default: "
        f"{signatures}.",
        "Serve it with the TensorFlow Serving image (see docs/serving.md):",
        f"  docker run --rm -p 8501:8501 -e MODEL_NAME={name} \\",
        f"    -v {shlex.quote(volume)} tensorflow/serving",
        sep="\n",
        flush=True,
    )


def save(directory, path, search, checks=()):
    """Writes one version.

    Args:
        directory: ModelDirectory.
        path: the version's folder; nothing is there yet.
        search: dict of what ServedTranslator or ServedParser takes, of
            target pieces the files that have them, of a shortlist its file,
            with `shortlist_size` beside.
        checks: functions of the model directory's path and the version's
            temporary folder, called before it gets its name; they raise
            InputError.

    Raises:
        InputError: the model directory is not whole, a parser's search cannot
            be as asked for, a file of target pieces is none, or writing
            fails.
    """
    servable = _servable(directory, search)
    description = describe(directory, servable)
    warm_up = make_warm_up(servable.tokenizer, servable.signatures())
    with written_whole(path) as temporary:
        try:
            tf.saved_model.save(
                servable,
                str(temporary),
                signatures=servable.signatures(),
            )
        except tf.errors.ResourceExhaustedError as error:
            raise OSError(errno.ENOSPC, error.message) from error
        description["signatures"] = describe_signatures(temporary)
        (temporary / "assets.extra").mkdir()
        (temporary / DESCRIPTION_FILES[servable.task]).write_text(
            json.dumps(description, indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
        (temporary / WARM_UP_FILE).write_bytes(warm_up)
        if servable.target_pieces is not None:
            (temporary / target_pieces.FILE).write_text(
                target_pieces.to_text(
                    servable.target_pieces, servable.tokenizer.target.proto
                ),
                encoding="utf-8",
            )
        if "shortlist" in search:
            shortlist.copy(search["shortlist"], temporary / shortlist.FILE)
        for check in checks:
            check(directory.path, temporary)


def _servable(directory, search):
    if not directory.symbols_path.exists():
        tokenizer = directory.load_tokenizer()
        model = directory.load_model()
        search = shortlist.read_by(search, tokenizer, model.config)
        search = target_pieces.read_by(search, tokenizer)
        return ServedTranslator(model, tokenizer, **search)
    # nltk takes seconds to load.
    from export.parsing.parser import Parser
    from export.serving.served_parser import MAX_SOURCE_TOKENS, ServedParser

    for name in (
        *("stop", "max_output_extra"),
        *("target_pieces", "shortlist", "shortlist_size"),
    ):
        if name in search:
            raise InputError(
                f"--{name} is of translations, and {directory.path} is a "
                "parser; leave it out."
            )
    search = dict(search)
    limit = search.pop("max_source_tokens", MAX_SOURCE_TOKENS)
    if limit < _LEAST_OF_A_PARSER:
        raise InputError(
            f"--max_source_tokens={limit} is too few for a parser, which "
            f"refuses longer sentences: give {_LEAST_OF_A_PARSER} at least."
        )
    return ServedParser(Parser.from_directory(directory.path, **search), limit)


def _check(model_dir, version):
    """Runs export.check, in a process that is like a server."""
    print("Checking the export before it gets its number:", flush=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "export.check"),
            *(f"--model_dir={model_dir}", "--", str(version)),
        ],
        stderr=sys.stderr,
    )
    if done.returncode:
        raise InputError(
            "The export did not pass export.check, which says why above; "
            "nothing was written, and --nocheck would leave this out."
        )


def _version(export_dir, asked):
    found = []
    if export_dir.is_dir():
        names = [path.name for path in export_dir.iterdir()]
        found = [int(name) for name in names if is_version(name)]
    version = max(found, default=0) + 1 if asked is None else asked
    if version < 1:
        raise InputError(f"--version must be at least 1, not {version}.")
    if version in found:
        raise InputError(
            f"{export_dir / str(version)} exists and is never overwritten; "
            "leave --version out for the next free number."
        )
    return version


if __name__ == "__main__":
    command.run(main)
