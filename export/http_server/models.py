"""Models that run the signatures of an export."""

import pathlib
import typing

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.serving.export_directory import (
    newest_version,
    read_description,
    read_task,
)


class LoadedModel(typing.NamedTuple):
    """A translator that can be served.

    Attributes:
        run: function of a signature's name and a dict of its inputs, arrays or
            lists, that returns a dict of arrays with a row per text.
        inputs: names of the inputs of each signature, a dict of lists.
        beam_size: number of translations of the signature "n_best".
        source_language: its code, or None.
        target_language: its code, or None.
    """

    run: typing.Callable
    inputs: dict[str, list[str]]
    beam_size: int
    source_language: str | None
    target_language: str | None


def load_model(path, search):
    """Loads a model directory, an exported version, or the newest of several.

    `search` is a dict of arguments of ServedTranslator for a model directory,
    with paths as in `load_output_vocabulary`. Raises InputError if the path has
    no translator, or if an export gets arguments.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        raise InputError(
            f"There is no folder {path}; expected a model directory or an "
            "exported version."
        )
    version = newest_version(path)
    if version is None:
        return _load_directory(ModelDirectory(path), search)
    if search:
        raise InputError(
            f"{version} is an export, whose search cannot be changed: give its "
            f"model directory, or omit --{', --'.join(search)}."
        )
    return _load_export(version)


def _load_export(version):
    # Not at the top: only exports need a session.
    from export.serving.session import SERVER_ERRORS, ServerSession

    if read_task(version) == "parsing":
        raise InputError(
            f"{version} is the export of a parser; expected a translator."
        )
    description = read_description(version)
    try:
        session = ServerSession(version)
    except SERVER_ERRORS as error:
        raise InputError(
            f"{version} is not an exported version that can be loaded: {error}"
        ) from error
    return LoadedModel(
        session.run,
        {name: [*each.inputs] for name, each in session.signatures.items()},
        description["limits"]["beam_size"],
        description.get("source_language"),
        description.get("target_language"),
    )


def _load_directory(directory, search):
    # Not at the top: exports do not need Keras.
    from export.serving.served_translator import ServedTranslator
    from export.translators.output_vocabulary_files import (
        load_output_vocabulary,
    )

    if directory.symbols_path.exists():
        raise InputError(
            f"{directory.path} is a parser's directory; expected a "
            "translator's."
        )
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
    search = load_output_vocabulary(search, tokenizer, model.config)
    servable = ServedTranslator(model, tokenizer, **search)
    run_file = directory.read_run() if directory.run_path.exists() else {}

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
        run_file.get("source_language"),
        run_file.get("target_language"),
    )
