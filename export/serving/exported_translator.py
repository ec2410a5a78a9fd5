"""Translates with an export, and loads the translator for --model."""

import contextlib
import pathlib

import numpy as np

from export.common.errors import InputError
from export.serving.export_directory import (
    newest_version,
    read_description,
    read_export_languages,
    read_task,
)
from export.translators.batches import BATCH_TOKENS, map_in_batches
from export.translators.languages import Languages
from export.translators.search_flags import SEARCH
from export.translators.signature_translator import SignatureTranslator
from export.translators.text_translator import Sentence, validate_texts


class ExportedTranslator(SignatureTranslator):
    """Translates with the SavedModel of one version, like Translator.

    Raises InputError if the version cannot be loaded.
    """

    def __init__(self, path, batch_tokens=BATCH_TOKENS):
        # Not at the top: only exports need a session.
        from export.serving.session import SERVER_ERRORS, ServerSession

        path = pathlib.Path(path)
        self.batch_tokens = batch_tokens
        self.name = str(path)
        # Not there without a description of the export.
        with contextlib.suppress(InputError):
            self.languages = read_export_languages(read_description(path))
        try:
            self._session = ServerSession(path)
        except SERVER_ERRORS as error:
            raise InputError(
                f"{path} is not an exported version that TensorFlow Serving "
                f"could load: {error}"
            ) from error
        self._signatures = self._session.signatures
        if "n_best" in self._signatures:
            scores = self._signatures["n_best"].outputs["scores"]
            self.beam_size = scores.tensor_shape.dim[1].size

    def target_lengths(self, translations):
        """See `Translator.target_lengths`."""
        return [
            None if truncated else length
            for length, truncated in self._count_targets(translations)
        ]

    def score(self, texts, translations):
        """Scores given translations; see `Translator.score`."""
        sources = self.sentences(texts)
        targets = self._count_targets(translations)
        # At least 2: shorter sentences are in no batch, but blank text is
        # scored too.
        lengths = [
            max(source.length, length, 2)
            for source, (length, _) in zip(sources, targets, strict=True)
        ]

        def score_batch(batch):
            outputs = self._run(
                "score",
                text=[sources[index].text for index in batch],
                translation=[translations[index] for index in batch],
            )
            return outputs["score"].tolist()

        return map_in_batches(lengths, self.batch_tokens, score_batch)

    def _tokenize(self, texts):
        if not texts:
            return []
        outputs = self._run("lengths", text=texts)
        lengths = np.minimum(outputs["length"], outputs["limit"]).tolist()
        truncated = outputs["truncated"].tolist()
        return [
            Sentence(text, (), *each)
            for text, *each in zip(texts, lengths, truncated)
        ]

    def _count_targets(self, translations):
        """Returns pairs: number of ids, and whether truncated."""
        translations = validate_texts(translations, "translations")
        if not translations:
            return []
        outputs = self._run("lengths", text=translations)
        if "translation_length" not in outputs:
            raise InputError(
                f"{self.name} does not count the tokens of translations; "
                "export its model again with export.saved_model."
            )
        lengths = np.minimum(
            outputs["translation_length"], outputs["translation_limit"]
        )
        truncated = outputs["translation_truncated"]
        return [*zip(lengths.tolist(), truncated.tolist())]

    def _predict(self, signature, texts, **inputs):
        return self._run(signature, text=texts, **inputs)

    def _run(self, signature, **inputs):
        if signature not in self._signatures:
            raise InputError(
                f"{self.name} has no signature {signature}; export its model "
                "again with export.saved_model."
            )
        return self._session.run(signature, inputs)


def load_translator(
    models, batch_tokens, search, compiled=False, has_prefixes=False
):
    """Returns the TextTranslator of model directories or of an export.

    `models` are paths: model directories of an ensemble, one exported version,
    or one folder of versions (the newest is used). `search` is a dict of the
    search flags that are set: GraphTranslator's arguments and `ensemble_mean`,
    with paths as in `load_output_vocabulary`; `compiled` is an argument of
    Translator, and `has_prefixes` tells whether --prefixes is set. Raises
    InputError for any other path and for incompatible flags.
    """
    paths = [pathlib.Path(model) for model in models]
    versions = [*filter(None, map(newest_version, paths))]
    for path in paths:
        if not path.is_dir():
            raise InputError(
                f"There is no folder {path}; expected a model directory or an "
                "exported version."
            )
    if not versions:
        return _load_model_translator(
            paths, batch_tokens, search, compiled, has_prefixes
        )
    version = versions[0]
    if read_task(version) == "parsing":
        raise InputError(
            f"{version} is the export of a parser; expected a translator."
        )
    given = [f"--{flag}" for flag in search]
    given += ["--compiled"] if compiled else []
    given += ["--prefixes"] if has_prefixes else []
    if given or len(paths) > 1:
        raise InputError(
            f"{version} is an export, whose search cannot be changed: give its "
            "model directory, or omit "
            f"{', '.join(given) or 'the other models'}."
        )
    return ExportedTranslator(version, batch_tokens)


def _load_model_translator(paths, batch_tokens, search, compiled, has_prefixes):
    # Not at the top: exports do not need Keras.
    import keras

    if keras.backend.backend() == "jax":
        return _load_jax_translator(paths, batch_tokens, search)
    from export.model_directory import ModelDirectory, load_models
    from export.translators.output_vocabulary_files import (
        load_output_vocabulary,
    )
    from export.translators.translator import Translator

    search = dict(search)
    for name in ("target_pieces", "shortlist"):
        if has_prefixes and name in search:
            raise InputError(
                f"--prefixes may have any token, but --{name} restricts the "
                "tokens of translations: omit one of them."
            )
    model, tokenizer = load_models(paths, search.pop("ensemble_mean", None))
    translator = Translator(
        model,
        tokenizer,
        batch_tokens=batch_tokens,
        compiled=compiled,
        **load_output_vocabulary(search, tokenizer, model.config),
    )
    directory = ModelDirectory(paths[0])
    translator.languages = Languages.from_directory(directory, tokenizer)
    return translator


def _load_jax_translator(paths, batch_tokens, search):
    from export.translators.jax_translator import JaxTranslator

    others = sorted(search.keys() - {*SEARCH, "min_length", "ensemble_mean"})
    if others:
        raise InputError(
            f"--{others[0]} needs TensorFlow: start the command with "
            "KERAS_BACKEND=tensorflow."
        )
    return JaxTranslator.from_directory(
        *paths, batch_tokens=batch_tokens, **search
    )
