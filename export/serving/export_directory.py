"""The files of an export: versions, descriptions, and warm-up requests.

A server runs the warm-up requests before it serves a version.
"""

import datetime
import hashlib
import importlib.metadata
import json
import pathlib
import random
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError

from export.common.errors import InputError
from export.common.storage import explain_read_errors
from export.terms.terms import Term, request_inputs
from export.tokenizers.tags import split_tags
from export.translators.batches import pad_ids
from export.translators.languages import Languages

if typing.TYPE_CHECKING:
    from export.serving.served_parser import ServedParser
    from export.serving.served_translator import ServedTranslator
    from export.translators.languages import Tokenizers

# Relative to a version's folder; TensorFlow Serving ignores them. Which of them
# exists determines the task of a version.
DESCRIPTION_FILES = {
    "translation": pathlib.PurePath("assets.extra", "translator.json"),
    "parsing": pathlib.PurePath("assets.extra", "parser.json"),
}
# TensorFlow Serving requires this name.
WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

# Token counts of the sentences in each request: one, and mixed lengths.
_REQUEST_LENGTHS = ([6], [1, 4, 9, 14])
_COMMON_LIMITS = {"beam_size", "alpha", "max_source_tokens"}
# By task, the settings of a search in a description.
LIMITS = {
    "translation": _COMMON_LIMITS
    | {"stop_criterion", "max_extra_tokens", "quantization"},
    "parsing": _COMMON_LIMITS,
}
# Of each signature, dicts of its inputs by name.
Requests: typing.TypeAlias = dict[str, list[dict[str, typing.Any]]]
_PACKAGES = ("keras", "tensorflow", "tensorflow-text")


def is_version(name: str) -> bool:
    """Returns whether TensorFlow Serving reads a folder name as a version."""
    return name.isascii() and name.isdecimal()


def newest_version(path: pathlib.Path) -> pathlib.Path | None:
    """Returns a folder that is an exported version, or its newest version.

    None if there is no version. Raises InputError if access is denied.
    """
    with explain_read_errors(path):
        if not path.is_dir():
            return None
        if (path / "saved_model.pb").exists():
            return path
        versions = [child for child in path.iterdir() if is_version(child.name)]
    return max(versions, key=lambda child: int(child.name), default=None)


def version_number(
    export_dir: pathlib.Path, requested: int | None = None
) -> int:
    """Returns the number of the version to write, by default the next one.

    Raises InputError if the version exists or `requested` is below 1.
    """
    versions = []
    if export_dir.is_dir():
        names = [path.name for path in export_dir.iterdir()]
        versions = [int(name) for name in names if is_version(name)]
    if requested is None:
        return max(versions, default=0) + 1
    if requested < 1:
        raise InputError(f"--version must be at least 1, got {requested}.")
    if requested in versions:
        raise InputError(
            f"{export_dir / str(requested)} exists and is never overwritten; "
            "omit --version for the next free number."
        )
    return requested


def folder_size(path: pathlib.Path) -> int:
    """Returns the size of all files in a folder, in bytes."""
    files = [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


def read_task(version: pathlib.Path) -> str:
    """Returns "parsing" for a parser's version, else "translation"."""
    is_parser = (version / DESCRIPTION_FILES["parsing"]).exists()
    return "parsing" if is_parser else "translation"


def make_description(
    directory: typing.Any, servable: "ServedTranslator | ServedParser"
) -> dict[str, typing.Any]:
    """Returns the description of an export."""
    import keras_transformer as kt

    run = directory.read_run() if directory.run_path.exists() else {}
    config, languages = directory.read_config(), servable.languages
    return {
        "source_language": languages.source,
        "target_language": languages.target,
        "languages": languages.codes,
        "language_tags": languages.num_tags,
        "dataset": run.get("dataset"),
        "configuration": json.loads(config.to_json()),
        "parameters": servable.parameters,
        "vocabulary": {
            "size": config.encoder_vocabulary_size,
            "sha256": hashlib.sha256(directory.read_vocabulary()).hexdigest(),
        },
        "scores": directory.read_scores(),
        "limits": servable.limits(),
        "signatures": sorted(servable.signatures()),
        "versions": {
            "keras_transformer": kt.__version__,
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
        "date": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
    }


def read_description(version: pathlib.Path) -> dict[str, typing.Any]:
    """Returns a version's description; InputError if it is not valid."""
    task = read_task(version)
    path = version / DESCRIPTION_FILES[task]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        missing = LIMITS[task].difference(content["limits"])
        if content["parameters"] < 1 or missing:
            names = ", ".join(sorted(missing)) or "parameters"
            raise ValueError(f"it lacks {names}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged_file_error(path, error) from error
    return content


def read_export_languages(description: Mapping[str, typing.Any]) -> Languages:
    """Returns the Languages of the description of an export."""
    return Languages(
        tuple(description.get("languages", ())),
        description.get("language_tags", 0),
        description.get("source_language"),
        description.get("target_language"),
    )


def select_inputs(
    names: Iterable[str],
    texts: Sequence[str],
    translations: Sequence[str],
    ids: Sequence[Sequence[int] | np.ndarray],
    codes: Iterable[tuple[str, str]],
) -> dict[str, typing.Any]:
    """Returns a request with inputs of these names.

    `ids` are rows of ids, `codes` pairs of languages, of `language_pairs`.
    Raises InputError for an unknown name.
    """
    terms = [first_terms(*pair) for pair in zip(texts, translations)]
    values: dict[str, typing.Any]
    values = {"text": texts, "translation": translations}
    values["ids"] = pad_ids(ids)
    values |= request_inputs(terms)
    values["source_language"], values["target_language"] = zip(*codes)
    unknown = set(names).difference(values)
    if unknown:
        raise InputError(
            f"Expected inputs among {', '.join(values)}, got "
            f"{', '.join(sorted(unknown))}: no request can be made for it."
        )
    return {name: values[name] for name in names}


def language_pairs(languages: Languages, count: int) -> list[tuple[str, str]]:
    """Returns `count` pairs of codes, of all languages to translate into."""
    source, codes = languages.source or "", languages.codes or [""]
    return [(source, codes[index % len(codes)]) for index in range(count)]


def first_terms(text: str, translation: str) -> list[Term]:
    """Returns the first words of both as one Term, if they exist."""
    texts = (split_tags(each, 2)[1] for each in (text, translation))
    source, target = (each.replace("|", " ").split()[:1] for each in texts)
    return [*map(Term, source, target)]


def random_texts(vocabulary: bytes, lengths: Sequence[int]) -> list[str]:
    """Returns texts of `lengths` random tokens, the same for each call.

    Tokenizing them may give other lengths. `vocabulary` is the bytes of a
    SentencePiece model.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    generator = random.Random(1)
    ids = [
        i
        for i in range(len(processor))
        if not processor.IsControl(i) and not processor.IsUnknown(i)
    ]
    return [
        processor.Decode(generator.choices(ids, k=length)) for length in lengths
    ]


def make_warm_up_requests(
    tokenizer: "Tokenizers",
    signatures: Mapping[str, typing.Any],
    languages: Languages,
) -> Requests:
    """Returns requests for each signature by name."""
    requests: Requests = {name: [] for name in signatures}
    for lengths in _REQUEST_LENGTHS:
        texts = random_texts(tokenizer.source.proto, lengths)
        translations = random_texts(tokenizer.target.proto, lengths[::-1])
        ids = tokenizer.source.encode(texts)
        for name, function in signatures.items():
            names = [spec.name for spec in function.input_signature]
            codes = language_pairs(languages, len(texts))
            inputs = select_inputs(names, texts, translations, ids, codes)
            requests[name].append(inputs)
    return requests


def write_warm_up_requests(path: pathlib.Path, requests: Requests) -> None:
    """Writes requests as TFRecords of PredictionLog."""
    # Not at the top: exports are loaded by a session without Keras.
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, request_inputs in requests.items():
            for inputs in request_inputs:
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                # The server reads only the signature.
                request.model_spec.name = "translator"
                request.model_spec.signature_name = name
                for key, value in inputs.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
                writer.write(log.SerializeToString())


def read_warm_up_requests(version: pathlib.Path) -> Requests:
    """Returns a version's warm-up requests; InputError if they are damaged."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path = version / WARM_UP_FILE
    requests: Requests = {}
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            name = request.model_spec.signature_name
            if not name:
                raise ValueError("a request names no signature")
            inputs = {
                key: tf.make_ndarray(tensor)
                for key, tensor in request.inputs.items()
            }
            requests.setdefault(name, []).append(inputs)
    except (tf.errors.OpError, DecodeError, ValueError, TypeError) as error:
        raise damaged_file_error(path, error) from error
    return requests


def damaged_file_error(path: pathlib.Path, error: Exception) -> InputError:
    """Returns the InputError for a damaged file of an export."""
    return InputError(
        f"{path} cannot be used ({error}); export the model again with "
        "export.saved_model."
    )
