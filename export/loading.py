"""Opens what `--model` names: model directories or an export."""

import contextlib
import os
import pathlib
import typing
from collections.abc import Hashable, Sequence

from export.common.errors import InputError
from export.common.packages import install_command
from export.onnx.onnx_session import MODEL_FILE, OnnxSession, find_onnx
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
        model: path of a model directory, of an exported version, of a folder of
            versions, whose newest is used, or of a folder of export.onnx; or a
            URL of `download_model`.
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
    exports = [find_export(path, refused) for path in paths]
    if exports[0] is not None:
        translator = _open_translator(exports[0], **settings)
    else:
        translator = _open_directories(paths, settings)
    return translator.for_languages(source_language, target_language)


class LoadedModel(typing.NamedTuple):
    """The signatures of a translator.

    Attributes:
        run: function of a signature's name and a dict of its inputs, arrays or
            lists, that returns a dict of arrays with a row per text.
        inputs: names of the inputs of each signature, a dict of lists.
        beam_size: number of translations of the signature "n_best".
        languages: its Languages.
    """

    run: typing.Callable
    inputs: dict[str, list[str]]
    beam_size: int
    languages: Languages


def find_export(
    path: str | os.PathLike, refused: Sequence[str] = ()
) -> pathlib.Path | None:
    """Returns the path of the export at a path, or None without one.

    That is the newest version in a folder, or a folder of export.onnx. Raises
    InputError if there is nothing, or if there is an export although `refused`
    has names of what an export does not take.
    """
    path = pathlib.Path(path)
    found = find_onnx(path)
    if found is None and not path.is_dir():
        raise InputError(
            f"There is no folder {path}; expected a model directory or an "
            "exported version."
        )
    found = found or newest_version(path)
    if found is not None and refused:
        raise InputError(
            f"{found} is an export, whose search cannot be changed: give its "
            f"model directory, or omit {', '.join(refused)}."
        )
    return found


def find_export_version(path: str | os.PathLike) -> Hashable:
    """Returns what changes when the export at a path is replaced.

    Raises InputError or OSError while there is none.
    """
    export = find_export(path)
    if export is None:
        raise InputError(f"{path} has no export.")
    is_onnx = find_onnx(export) is not None
    status = (export / (MODEL_FILE if is_onnx else "saved_model.pb")).stat()
    return str(export), status.st_mtime_ns, status.st_size


def open_export(path: pathlib.Path) -> LoadedModel:
    """Returns the LoadedModel of a path from `find_export`.

    Raises InputError if it is that of a parser or cannot be loaded.
    """
    if find_onnx(path) is not None:
        model = OnnxSession(path)
        return LoadedModel(
            model.run, model.signatures, model.beam_size, model.languages
        )
    # Not at the top: only these exports need TensorFlow.
    from export.serving.session import SERVER_ERRORS, ServerSession

    if read_task(path) == "parsing":
        raise InputError(
            f"{path} is the export of a parser; expected a translator."
        )
    try:
        session = ServerSession(path)
    except SERVER_ERRORS as error:
        raise InputError(
            f"{path} is not an exported version that TensorFlow Serving "
            f"could load: {error}"
        ) from error
    signatures, languages, beam_size = session.signatures, Languages(), 1
    # Not there without a description of the export.
    with contextlib.suppress(InputError):
        languages = read_export_languages(read_description(path))
    if "n_best" in signatures:
        scores = signatures["n_best"].outputs["scores"]
        beam_size = scores.tensor_shape.dim[1].size
    inputs = {name: [*each.inputs] for name, each in signatures.items()}
    return LoadedModel(session.run, inputs, beam_size, languages)


def _open_translator(path, batch_tokens=BATCH_TOKENS):
    model = open_export(path)
    backend = SignatureBackend(
        model.run,
        model.inputs,
        str(path),
        batch_tokens=batch_tokens,
        beam_size=model.beam_size,
    )
    return Translator(backend, model.languages)


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
