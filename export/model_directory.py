"""The model directory, which trainers write and all of `export` reads."""

import errno
import json
import math
import os
import pathlib
import shutil
import typing
from collections.abc import Mapping, Sequence

import h5py

import keras_transformer as kt
from export.common.errors import InputError
from export.common.storage import atomic_write, write_bytes, write_json
from export.tokenizers import load_tokenizer
from export.translators.languages import Languages
from keras_transformer.parsing.parser_transformer import new_transformer

if typing.TYPE_CHECKING:
    from export.translators.languages import Tokenizers

_JSON_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)


class ModelDirectory:
    """A folder with a model, its vocabulary and its training records.

    - `config.json`: TransformerConfig.
    - `run.json`: data set, languages, seed and everything else that determines
      the weights; a training resumes only with the same ones.
    - `training.json`: command, hardware, date, steps and seconds of each run,
      and the step of the weights to use.
    - `training.lock`: locked while a training runs.
    - `data/`: prepared data, unless stored elsewhere.
    - `vocabulary.model`: SentencePiece model; two for some pretrained models.
    - `symbols.json`: vocabulary of a parser's trees.
    - `model.weights.h5`: the weights to use, averaged if averaging is on.
    - `checkpoints/`: for resuming.
    - `logs/`: for TensorBoard.
    - `scores.json`: each score and how it was computed.

    `path` need not exist yet. Methods raise InputError if a file is missing or
    not valid, or if the system denies access.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        try:
            self.path.exists()
        except OSError as error:
            raise InputError(
                f"Cannot use {path} as a model directory: {error.strerror}."
            ) from None
        self.config_path = self.path / "config.json"
        self.run_path = self.path / "run.json"
        self.vocabulary_path = self.path / "vocabulary.model"
        self.symbols_path = self.path / "symbols.json"
        self.weights_path = self.path / "model.weights.h5"
        self.checkpoints_path = self.path / "checkpoints"
        self.logs_path = self.path / "logs"
        self.scores_path = self.path / "scores.json"

    def read_config(self) -> kt.TransformerConfig:
        """Returns the TransformerConfig."""
        try:
            text = self._read_text(self.config_path)
            return kt.TransformerConfig.from_json(text)
        except _JSON_ERRORS as error:
            raise InputError(
                f"{self.config_path} is not a configuration: {error}"
            ) from error

    def write_config(self, config: kt.TransformerConfig) -> None:
        """Writes config.json."""
        _write_text(self.config_path, config.to_json())

    def read_run(self) -> dict[str, typing.Any]:
        """Returns the content of run.json."""
        return self._read_json(self.run_path, dict)

    def read_languages(self) -> tuple[str | None, str | None]:
        """Returns the codes of source and target in run.json; or None."""
        run = self.read_run() if self.run_path.exists() else {}
        return run.get("source_language"), run.get("target_language")

    def write_run(self, run: Mapping[str, typing.Any]) -> None:
        """Writes run.json."""
        write_json(self.run_path, run)

    def read_scores(self) -> list[dict[str, typing.Any]]:
        """Returns the scores; empty if scores.json is missing."""
        if not self.scores_path.exists():
            return []
        return self._read_json(self.scores_path, list)

    def write_scores(self, scores: list[dict[str, typing.Any]]) -> None:
        """Writes scores.json."""
        write_json(self.scores_path, scores)

    def load_tokenizer(self) -> "Tokenizers":
        """Returns the Tokenizer or TokenizerPair; validates its sizes."""
        config = self.read_config()
        try:
            tokenizer = load_tokenizer(self.read_vocabulary())
        except ValueError as error:
            raise InputError(f"{self.vocabulary_path}: {error}") from error
        is_joint = tokenizer.source is tokenizer.target
        if config.source_vocabulary_size and is_joint:
            raise InputError(
                f"{self.config_path} has "
                f"source_vocabulary_size={config.source_vocabulary_size}, but "
                f"{self.vocabulary_path.name} is one vocabulary for both "
                "languages; use a model with 0, or export.parse for a parser."
            )
        for side, expected in (
            (tokenizer.source, config.encoder_vocabulary_size),
            (tokenizer.target, config.vocabulary_size),
        ):
            if side.vocabulary_size != expected:
                raise InputError(
                    f"{self.vocabulary_path} has {side.vocabulary_size} "
                    f"tokens, but {self.config_path} expects {expected}; "
                    "give files of one training."
                )
        return tokenizer

    def read_vocabulary(self) -> bytes:
        """Returns the bytes of vocabulary.model."""
        return self._read_bytes(self.vocabulary_path)

    def write_vocabulary(self, proto: bytes) -> None:
        """Writes vocabulary.model."""
        write_bytes(self.vocabulary_path, proto)

    def read_symbols(self) -> str:
        """Returns the text of symbols.json, which only parsers have."""
        if self.config_path.exists() and not self.symbols_path.exists():
            raise InputError(
                f"{self.path} has no {self.symbols_path.name}; give a model "
                "directory of trainers.parsing."
            )
        return self._read_text(self.symbols_path)

    def write_symbols(self, text: str) -> None:
        """Writes symbols.json."""
        _write_text(self.symbols_path, text)

    def load_model(self, dtype: typing.Any = "float32") -> kt.Transformer:
        """Returns the Transformer with the weights to use, in this dtype."""
        model = new_transformer(self.read_config(), dtype=dtype)
        if not self.weights_path.exists():
            raise InputError(
                f"{self.weights_path} is missing: the training has not "
                "finished; resume it with the same flags, or end it with "
                "--train_steps set to its last step."
            )
        try:
            model.load_weights(self.weights_path)
            _validate_array_count(self.weights_path, model)
        # HDF5 raises RuntimeError for a damaged file.
        except (ValueError, OSError, KeyError, RuntimeError) as error:
            raise InputError(
                f"{self.weights_path} does not hold the weights of "
                f"{self.config_path}: {str(error).splitlines()[0]}"
            ) from error
        return model

    def load(self) -> "tuple[kt.Transformer, Tokenizers, Languages]":
        """Returns a translator's Transformer, tokenizer and Languages."""
        tokenizer = self.load_tokenizer()
        languages = Languages.from_directory(self, tokenizer)
        return self.load_model(), tokenizer, languages

    def write(
        self,
        model: kt.Transformer,
        vocabulary: bytes,
        run: Mapping[str, typing.Any],
        config: kt.TransformerConfig | None = None,
    ) -> None:
        """Writes a Transformer, the bytes of its vocabulary, and run.json.

        `config` may have other settings of the search than the model.
        """
        self.write_vocabulary(vocabulary)
        self.write_run(run)
        self.write_weights(model)
        self.write_config(config or model.config)

    def write_weights(self, model: kt.Transformer) -> None:
        """Writes model.weights.h5 from a Transformer."""
        uncompiled = model
        if model.compiled:
            # Keras would write the optimizer too.
            uncompiled = new_transformer(model.config)
            uncompiled.set_weights(model.get_weights())
        with atomic_write(self.weights_path) as temporary:
            _validate_disk_space(temporary.parent, uncompiled)
            uncompiled.save_weights(temporary)

    def _read_json(self, path, expected_type):
        try:
            content = json.loads(self._read_text(path))
        except _JSON_ERRORS as error:
            raise InputError(f"{path} is not JSON: {error}.") from error
        if not isinstance(content, expected_type):
            name = expected_type.__name__
            raise InputError(f"{path} must contain a JSON {name}.")
        return content

    def _read_text(self, path):
        return self._read_bytes(path).decode("utf-8")

    def _read_bytes(self, path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise InputError(
                f"There is no {path}; give a model directory, as trainers.wmt "
                "writes it, and not an export."
            ) from None
        except OSError as error:
            raise InputError(f"Cannot read {path}: {error.strerror}.") from None


def load_models(
    paths: Sequence[str | os.PathLike], ensemble_mean: str | None = None
) -> "tuple[kt.Transformer | kt.Ensemble, Tokenizers]":
    """Loads one model, or a kt.Ensemble of several, and its tokenizer.

    `ensemble_mean` is the `mean` of kt.Ensemble. Raises InputError if a file is
    not valid, vocabularies differ, or a mean is given for one model.
    """
    directories = [ModelDirectory(path) for path in paths]
    tokenizers = [directory.load_tokenizer() for directory in directories]
    protos = [(each.source.proto, each.target.proto) for each in tokenizers]
    validate_equal(paths, protos, "vocabularies")
    return load_model_or_ensemble(directories, ensemble_mean), tokenizers[0]


def load_model_or_ensemble(
    directories: Sequence[ModelDirectory], ensemble_mean: str | None = None
) -> kt.Transformer | kt.Ensemble:
    """Returns the Transformer of one ModelDirectory, or a kt.Ensemble."""
    if len(directories) == 1 and ensemble_mean is not None:
        raise InputError(
            "--ensemble_mean needs several models; repeat --model, or omit it."
        )
    models = [directory.load_model() for directory in directories]
    if len(models) == 1:
        return models[0]
    mean = {"mean": ensemble_mean} if ensemble_mean else {}
    try:
        return kt.Ensemble(models, **mean)
    except ValueError as error:
        raise InputError(str(error)) from error


def validate_equal(
    paths: Sequence[str | os.PathLike],
    contents: Sequence[typing.Any],
    description: str,
) -> None:
    """Raises InputError if the `contents` of an ensemble's models differ."""
    for path, content in zip(paths, contents):
        if content != contents[0]:
            raise InputError(
                f"{paths[0]} and {path} have different {description}; the "
                f"models of an ensemble must have the same {description}."
            )


def _validate_disk_space(folder, model):
    """Raises OSError in advance: HDF5 crashes the process on a full disk."""
    size = sum(4 * math.prod(weight.shape) for weight in model.weights)
    # HDF5 adds up to 3.7 kB per array, groups included.
    if shutil.disk_usage(folder).free < size + 4096 * len(model.weights):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _validate_array_count(path, model):
    """Raises ValueError for surplus arrays, which Keras ignores."""
    names = []

    def add_array(name, item):
        if isinstance(item, h5py.Dataset):
            names.append(name)

    with h5py.File(path) as file:
        file.visititems(add_array)
    expected = len(model.weights)
    if len(names) != expected:
        raise ValueError(f"expected {expected} arrays, got {len(names)}.")


def _write_text(path, text):
    write_bytes(path, text.encode("utf-8"))
