"""Models that run the signatures of an export."""

import functools
import os
import pathlib
import typing
from collections.abc import Iterator, Mapping, Sequence

from export.common.errors import InputError
from export.http_server.model_pool import ModelPool
from export.loading import (
    LoadedModel,
    find_export,
    find_export_version,
    open_export,
)
from export.remote_models import download_model

_CONFIG = "config.json"
# The first run of each is slow.
_WARM_UP = "serving_default", "n_best", "align"


def load_models(
    paths: Mapping[str, str | os.PathLike],
    search: Mapping[str, typing.Any],
    languages: Sequence[str | None] = (None, None),
    max_bytes: int | None = None,
) -> dict[str, LoadedModel]:
    """Loads the models of a server by their names; see `load_model`.

    Exports are loaded again when they change, and unloaded while the process
    takes more than `max_bytes`; InputError for this bound and model
    directories.
    """
    pool, loaded = ModelPool(max_bytes), {}
    for name, path in paths.items():
        load = functools.partial(load_model, path, search, languages)
        if "://" not in str(path) and find_export(path) is not None:
            version = functools.partial(find_export_version, path)
            loaded[name] = pool.add(name, load, version)
        elif max_bytes is None:
            loaded[name] = load()
        else:
            raise InputError(
                f"{path} is a model directory, which cannot be unloaded: "
                "export it with export.saved_model or export.onnx, "
                "or omit --max_memory_gib."
            )
    return loaded


def find_models(path: str | os.PathLike) -> Iterator[str | os.PathLike]:
    """Yields the models in a folder of several, in order, or the path."""
    is_model = "://" in str(path) or pathlib.Path(path, _CONFIG).exists()
    if is_model or not pathlib.Path(path).is_dir() or find_export(path):
        yield path
        return
    children = sorted(pathlib.Path(path).iterdir())
    found = [
        child
        for child in children
        if child.is_dir() and ((child / _CONFIG).exists() or find_export(child))
    ]
    yield from found
    if not found:
        # Loading it tells what is missing.
        yield path


def load_model(
    path: str | os.PathLike,
    search: Mapping[str, typing.Any],
    languages: Sequence[str | None] = (None, None),
) -> LoadedModel:
    """Loads and warms up a model directory or export; see `load_translator`.

    `search` has arguments of ServedTranslator for a model directory,
    with paths as in `load_output_vocabulary`; `languages` are codes of source
    and target, None for the model's own. Raises InputError if the path has no
    translator or it lacks a language, or if an export gets arguments.
    """
    path = download_model(path)
    export = find_export(path, [f"--{name}" for name in search])
    if export is None:
        model = _load_directory(path, search, languages)
    else:
        model = open_export(export)
        model = model._replace(languages=model.languages.select(*languages))
    for signature in _WARM_UP:
        if signature in model.inputs:
            model.run(signature, {"text": [b"a"]})
    return model


def _load_directory(path, search, selected):
    # Not at the top: exports do not need Keras.
    from export.model_directory import ModelDirectory
    from export.serving.served_translator import ServedTranslator

    directory = ModelDirectory(path)
    if directory.symbols_path.exists():
        raise InputError(
            f"{directory.path} is a parser's directory; expected a "
            "translator's."
        )
    servable = ServedTranslator.from_directory(directory, *selected, **search)

    def run(name, inputs):
        # A tf.function does not keep its object alive.
        outputs = servable.signatures()[name](**inputs)
        return {key: value.numpy() for key, value in outputs.items()}

    return LoadedModel(
        run,
        {
            name: [spec.name for spec in function.input_signature]
            for name, function in servable.signatures().items()
        },
        servable.config.beam_size,
        servable.languages,
    )
