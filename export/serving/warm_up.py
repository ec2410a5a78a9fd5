"""Warm-up requests, which a server runs before it serves a version."""

import pathlib
import random

import sentencepiece
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from export.common.errors import InputError
from export.serving.export_directory import unusable

# Relative to the version's folder, where TensorFlow Serving expects it.
WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

# Token counts of the sentences in each request: one, and mixed lengths.
_REQUESTS = ([6], [1, 4, 9, 14])
# The server reads only the signature of a warm-up request.
_MODEL_NAME = "translator"


def select_inputs(names, texts, translations, ids):
    """Returns a request, a dict; InputError for an unknown input name."""
    values = {"text": texts, "translation": translations, "ids": ids}
    unknown = set(names).difference(values)
    if unknown:
        raise InputError(
            f"Expected inputs among {', '.join(values)}, got "
            f"{', '.join(sorted(unknown))}: no request can be made for it."
        )
    return {name: values[name] for name in names}


def random_texts(vocabulary, lengths):
    """Returns a list of str of random tokens, the same for each call.

    `lengths` are their numbers of tokens; tokenizing them again may give
    different ones. `vocabulary` is the bytes of a SentencePiece model.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    generator = random.Random(1)
    ids = [
        number
        for number in range(len(processor))
        if not processor.IsControl(number) and not processor.IsUnknown(number)
    ]
    return [
        processor.Decode(generator.choices(ids, k=length)) for length in lengths
    ]


def warm_up_requests(tokenizer, signatures):
    """Returns lists of requests, a dict by names of signatures."""
    requests = {name: [] for name in signatures}
    for lengths in _REQUESTS:
        texts = random_texts(tokenizer.source.proto, lengths)
        translations = random_texts(tokenizer.target.proto, lengths[::-1])
        ids = tokenizer.source.tokenize(texts).to_tensor().numpy()
        for name, function in signatures.items():
            names = [spec.name for spec in function.input_signature]
            requests[name].append(
                select_inputs(names, texts, translations, ids)
            )
    return requests


def write_warm_up(path, requests):
    """Writes the `warm_up_requests` as TFRecords of PredictionLog."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, inputs in (
            (name, inputs) for name, each in requests.items() for inputs in each
        ):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = _MODEL_NAME
            request.model_spec.signature_name = name
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            writer.write(log.SerializeToString())


def read_warm_up(version):
    """Returns a version's requests, dicts of arrays, or raises InputError."""
    path = version / WARM_UP_FILE
    requests = {}
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
        raise unusable(path, error) from error
    return requests
