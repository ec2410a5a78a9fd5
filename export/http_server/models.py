"""Models that run the signatures of an export."""

import os
import typing
from collections.abc import Mapping, Sequence

from export.common.errors import InputError
from export.loading import LoadedModel, find_export, open_export
from export.remote_models import download_model


def load_model(
    path: str | os.PathLike,
    search: Mapping[str, typing.Any],
    languages: Sequence[str | None] = (None, None),
) -> LoadedModel:
    """Loads a model directory or an export; see `load_translator`.

    `search` has arguments of ServedTranslator for a model directory,
    with paths as in `load_output_vocabulary`; `languages` are codes of source
    and target, None for the model's own. Raises InputError if the path has no
    translator or it lacks a language, or if an export gets arguments.
    """
    path = download_model(path)
    export = find_export(path, [f"--{name}" for name in search])
    if export is None:
        return _load_directory(path, search, languages)
    model = open_export(export)
    return model._replace(languages=model.languages.select(*languages))


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
