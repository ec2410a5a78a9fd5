"""Opens what `--model` names: model directories or an export."""

import contextlib
import os
import pathlib
import typing
from collections.abc import Sequence

from export.common.errors import InputError
from export.common.packages import install_command
from export.remote_models import download_model
from export.serving.export_directory import (
    newest_version,
    read_description,
    read_export_languages,
    read_task,
)
from export.translators.batches import BATCH_TOKENS
from export.translators.languages import Languages
from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator

if typing.TYPE_CHECKING:
    from export.serving.session import ServerSession

# What IdsBackend takes besides SEARCH_FIELDS.
_IDS_SETTINGS = ("min_length", "batch_tokens", "max_source_tokens")


def load_translator(
    model: str | os.PathLike,
    *others: str | os.PathLike,
    source_language: str | None = None,
    target_language: str | None = None,
    **settings: typing.Any,
) -> Translator:
    """Returns the Translator of model directories or of an export.

    Args:
        model: path of a model directory, of an exported version or of a folder
            of versions, whose newest is used; or a URL of `download_model`.
        *others: further model directories of an ensemble.
        source_language: code of the texts' language, for a model of several;
            that of the model directory or export by default.
        target_language: the same, of the translations.
        **settings: of a model directory the arguments of GraphBackend, as
            beam_size=8, with the paths of `load_output_vocabulary`, and
            `ensemble_mean` of `load_models`; of an export only batch_tokens.

    Raises InputError for a path that has no translator, and for settings that
    it does not take.

    Examples:
        >>> translator = load_translator("runs/demo")
        >>> translator.translate(["Hello."])[0].text
        'Bonjour.'
    """
    paths = [download_model(each) for each in (model, *others)]
    refused = [f"--{name}" for name in settings if name != "batch_tokens"]
    refused += ["the other models"] * bool(others)
    versions = [find_version(path, refused) for path in paths]
    if any(versions):
        translator = _open_version(versions[0], **settings)
    else:
        translator = _open_directories(paths, settings)
    return translator.for_languages(source_language, target_language)


def find_version(
    path: str | os.PathLike, refused: Sequence[str] = ()
) -> pathlib.Path | None:
    """Returns the newest exported version at a path, or None without one.

    Raises InputError if there is no folder, or if there is an export although
    `refused` has names of what an export does not take.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        raise InputError(
            f"There is no folder {path}; expected a model directory or an "
            "exported version."
        )
    version = newest_version(path)
    if version is not None and refused:
        raise InputError(
            f"{version} is an export, whose search cannot be changed: give its "
            f"model directory, or omit {', '.join(refused)}."
        )
    return version


def open_session(version: pathlib.Path) -> "ServerSession":
    """Returns the ServerSession of a translator's exported version.

    Raises InputError if it is that of a parser or cannot be loaded.
    """
    # Not at the top: only exports need a session.
    from export.serving.session import SERVER_ERRORS, ServerSession

    if read_task(version) == "parsing":
        raise InputError(
            f"{version} is the export of a parser; expected a translator."
        )
    try:
        return ServerSession(version)
    except SERVER_ERRORS as error:
        raise InputError(
            f"{version} is not an exported version that TensorFlow Serving "
            f"could load: {error}"
        ) from error


def _open_version(version, batch_tokens=BATCH_TOKENS):
    session = open_session(version)
    signatures, languages = session.signatures, Languages()
    # Not there without a description of the export.
    with contextlib.suppress(InputError):
        languages = read_export_languages(read_description(version))
    beam_size = 1
    if "n_best" in signatures:
        scores = signatures["n_best"].outputs["scores"]
        beam_size = scores.tensor_shape.dim[1].size
    backend = SignatureBackend(
        session.run,
        signatures,
        str(version),
        batch_tokens=batch_tokens,
        beam_size=beam_size,
    )
    return Translator(backend, languages)


def _open_directories(paths, settings):
    # Not at the top: exports do not need Keras.
    from export.model_directory import ModelDirectory, load_models
    from export.tokenizers import splits_in_python
    from export.translators.output_vocabulary_files import (
        load_output_vocabulary,
    )
    from keras_transformer.config import SEARCH_FIELDS

    settings = dict(settings)
    model, tokenizer = load_models(paths, settings.pop("ensemble_mean", None))
    if splits_in_python():
        others = sorted(settings.keys() - {*SEARCH_FIELDS, *_IDS_SETTINGS})
        if others:
            raise InputError(
                f"--{others[0]} needs TensorFlow and tensorflow-text; run "
                f"{install_command('tensorflow_text')}, and start the command "
                "with KERAS_BACKEND=tensorflow."
            )
    settings = load_output_vocabulary(settings, tokenizer, model.config)
    languages = Languages.from_directory(ModelDirectory(paths[0]), tokenizer)
    return Translator.from_model(model, tokenizer, languages, **settings)
