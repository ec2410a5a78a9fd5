"""TensorFlow Serving's interface: requests and responses of `:predict`."""

import typing
from collections.abc import Mapping

import numpy as np

from export.common.errors import InputError
from export.http_server.fields import (
    RequestError,
    select_text,
    validate_texts,
    validate_unicode,
)
from export.loading import LoadedModel

# The signature with languages; here by columns only.
_LANGUAGES = "translate_languages"
_LANGUAGE_INPUTS = ("source_language", "target_language")


class Prediction(typing.NamedTuple):
    """A parsed request: its signature, and texts with their tags."""

    signature: str
    texts: list[str]
    by_rows: bool


def parse_prediction(
    content: Mapping[str, typing.Any], model: LoadedModel, max_texts: int
) -> Prediction:
    """Returns the Prediction of a request; raises RequestError."""
    name = content.get("signature_name", "serving_default")
    inputs = model.inputs.get(name) if isinstance(name, str) else None
    by_rows = "instances" in content
    field = "instances" if by_rows else "inputs"
    value = content.get(field)
    has_languages = (
        name == _LANGUAGES and bool(inputs) and isinstance(value, dict)
    )
    if has_languages:
        name = "serving_default"
    elif inputs != ["text"]:
        signatures = model.inputs.items()
        usable = [key for key, names in signatures if names == ["text"]]
        message = f"signature_name must be one of {', '.join(usable)}."
        if name == "align":
            message += " For alignments use export.onnx with --alignments."
        raise RequestError(400, message)
    if by_rows and "inputs" in content:
        raise RequestError(400, "Give instances or inputs, not both.")
    names = {"text", *(_LANGUAGE_INPUTS if has_languages else ())}
    texts = select_text(value, names, field)
    if by_rows and isinstance(texts, list):
        texts = [select_text(each, names, field) for each in texts]
    validate_texts(texts, field, max_texts)
    if has_languages:
        texts = _tag_texts(texts, value, model.languages)
    return Prediction(name, texts, by_rows)


def format_outputs(
    outputs: Mapping[str, np.ndarray], by_rows: bool
) -> dict[str, typing.Any]:
    """Returns the outputs of a signature as a response."""
    columns = {key: _to_json(value) for key, value in outputs.items()}
    if not by_rows:
        return {"outputs": columns}
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return {"predictions": rows}


def _tag_texts(texts, fields, languages):
    """Returns texts with the tags of the languages of a request."""
    columns = [texts]
    for name in _LANGUAGE_INPUTS:
        codes = fields.get(name)
        if not isinstance(codes, list) or len(codes) != len(texts):
            raise RequestError(400, f"{name} must have a code per text.")
        for code in codes:
            if not isinstance(code, str):
                raise RequestError(400, f"{name} must be a language's code.")
            validate_unicode(code, name)
        columns.append(codes)
    # A model with tags of targets only ignores the sources'.
    has_sources = "source" in languages.tag_sides
    try:
        return [
            # "" is the default one.
            languages.select((has_sources and source) or None, target).tag(text)
            for text, source, target in zip(*columns)
        ]
    except InputError as error:
        raise RequestError(400, str(error)) from None


def _to_json(values):
    """Converts an array to nested lists; bytes are UTF-8."""
    if values.dtype == object:
        decode = np.frompyfunc(lambda each: each.decode("utf-8"), 1, 1)
        values = decode(values)
    return values.tolist()
