"""Models by their files: which they are, and whether they changed."""

import dataclasses
import hashlib
import json
import pathlib

from export.errors import InputError

# All that decides what a translator says.
FILES = ("config.json", "vocabulary.model", "model.weights.h5")


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """A model directory as it was when it was read.

    Attributes:
        path: of the folder.
        sha256: hex digest of each of `FILES`.
    """

    path: str
    sha256: tuple[str, ...]


def hash_model_files(path):
    """Returns the ModelFiles of a model directory.

    Args:
        path: of the folder.

    Raises:
        InputError: it holds no translator.
    """
    folder = pathlib.Path(path)
    if (folder / "symbols.json").exists():
        raise InputError(
            f"{folder} holds a parser, which translates nothing; give the "
            "model directory of a translator."
        )
    digests = []
    for name in FILES:
        try:
            with (folder / name).open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError as error:
            raise InputError(
                f"The model {path} cannot be used: {folder / name} cannot be "
                f"read ({error.strerror}); give a model directory, as "
                "trainers.wmt writes it."
            ) from error
    return ModelFiles(str(path), tuple(digests))


def validate_direction(path, source, target):
    """Refuses a model that was trained to translate the other way round.

    Args:
        path: of the model directory.
        source: code of the language that it is to translate from.
        target: code of the language that it is to translate into.

    Raises:
        InputError: its run.json says that it does the reverse.
    """
    try:
        content = pathlib.Path(path, "run.json").read_text("utf-8")
        run = json.loads(content)
        there = run["source_language"], run["target_language"]
    # What was not trained here need not say it.
    except (OSError, ValueError, TypeError, KeyError):
        return
    if there == (target, source):
        raise InputError(
            f"--model={path} translates from {target} into {source}, and "
            f"{source} is to be translated into {target}; give a model of "
            "that direction, or another --way."
        )


def validate_unchanged(models):
    """Refuses models that are not as they were.

    Args:
        models: list of ModelFiles.

    Raises:
        InputError: a file has changed or gone.
    """
    for model in models:
        if hash_model_files(model.path) != model:
            raise InputError(
                f"The model {model.path} has changed while it was used; put "
                "back what was there, or begin anew in another --output_dir."
            )
