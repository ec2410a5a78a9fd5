"""Models that run the signatures of an export."""

import os
import typing
from collections.abc import Mapping, Sequence

from export.common.errors import InputError
from export.loading import find_version, open_session
from export.model_directory import ModelDirectory
from export.remote_models import download_model
from export.serving.export_directory import (
    read_description,
    read_export_languages,
)
from export.translators.languages import Languages


class LoadedModel(typing.NamedTuple):
    """A translator that can be served.

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


def load_model(
    path: str | os.PathLike,
    search: Mapping[str, typing.Any],
    languages: Sequence[str | None] = (None, None),
) -> LoadedModel:
    """Loads a model directory, an exported version, or the newest of several.

    `search` has arguments of ServedTranslator for a model directory,
    with paths as in `load_output_vocabulary`; `languages` are codes of source
    and target, None for the model's own. Raises InputError if the path has no
    translator or it lacks a language, or if an export gets arguments.
    """
    path = download_model(path)
    version = find_version(path, [f"--{name}" for name in search])
    if version is None:
        return _load_directory(ModelDirectory(path), search, languages)
    return _load_export(version, languages)


def _load_export(version, selected):
    session = open_session(version)
    description = read_description(version)
    return LoadedModel(
        session.run,
        {name: [*each.inputs] for name, each in session.signatures.items()},
        description["limits"]["beam_size"],
        read_export_languages(description).select(*selected),
    )


def _load_directory(directory, search, selected):
    # Not at the top: exports do not need Keras.
    from export.serving.served_translator import ServedTranslator

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


def list_languages(languages: Languages) -> list[dict[str, typing.Any]]:
    """Returns LibreTranslate's list of languages, the default ones first."""

    def put_first(code, codes):
        # "und", as in BCP 47, if unknown.
        return sorted(codes, key=lambda each: each != code) or [code or "und"]

    has_sources = "source" in languages.tag_sides
    sources = put_first(languages.source, languages.codes * has_sources)
    targets = put_first(languages.target, languages.codes)
    return [
        {"code": source, "name": source, "targets": targets}
        for source in sources
    ]
