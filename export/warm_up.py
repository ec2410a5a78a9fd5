"""The requests that a server runs before it serves a version."""

import pathlib

from export.errors import InputError
from export.made_up_text import made_up_texts
from export.prediction_logs import pack_request, unpack_request
from export.tfrecords import pack_records, unpack_records

# Relative to the version's folder; where TensorFlow Serving looks for it.
WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

# Pieces of the sentences of each request: one, and a few of mixed lengths.
_REQUESTS = ([6], [1, 4, 9, 14])


def make_warm_up(tokenizer, names):
    """Returns the content of a file of requests for every signature.

    Args:
        tokenizer: Tokenizer.
        names: of the signatures; those of ServedTranslator.
    """
    return pack_records(
        pack_request(name, _inputs(name, tokenizer, lengths))
        for name in names
        for lengths in _REQUESTS
    )


def read_warm_up(version):
    """Returns a dict, signature's name to list of its requests' inputs.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    path = version / WARM_UP_FILE
    requests = {}
    try:
        for record in unpack_records(path.read_bytes()):
            name, inputs = unpack_request(record)
            requests.setdefault(name, []).append(inputs)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} cannot be used ({error}); export the model again with "
            "export.saved_model."
        ) from error
    return requests


def _inputs(name, tokenizer, lengths):
    texts = made_up_texts(tokenizer.proto, lengths)
    if name == "tokens":
        ids = tokenizer.tokenize(texts).to_tensor().numpy()
        return {"ids": ("int32", ids)}
    inputs = {"text": ("string", texts)}
    if name == "score":
        inputs["translation"] = ("string", texts[::-1])
    return inputs
