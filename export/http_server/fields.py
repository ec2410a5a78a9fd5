"""The fields of requests: parsed, and refused if they are wrong."""

import json
import urllib.parse

_FORM = "application/x-www-form-urlencoded"


class RequestError(Exception):
    """A request is refused, with an HTTP status."""

    def __init__(self, status, message, **headers):
        super().__init__(message)
        self.status = status
        self.headers = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


def parse_fields(content, content_type):
    """Returns the fields of a request in JSON or of a form, a dict.

    `content` is bytes, `content_type` the header.
    """
    try:
        text = content.decode("utf-8")
        if content_type.split(";")[0].strip().lower() == _FORM:
            fields = _parse_form(text)
        else:
            fields = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(
            400, f"The request must be a JSON object or {_FORM}, in UTF-8."
        ) from None
    if not isinstance(fields, dict):
        raise RequestError(400, "The request must be a JSON object.")
    return fields


def _parse_form(text):
    """Returns the fields of a form, a dict; some may be empty."""
    pairs = urllib.parse.parse_qsl(
        text, keep_blank_values=True, errors="strict"
    )
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise RequestError(400, "A form may have each field once.")
    return fields


def validate_texts(texts, name, max_texts):
    """Refuses anything but a list of texts."""
    if not isinstance(texts, list) or not 0 < len(texts) <= max_texts:
        raise RequestError(
            400, f"{name} must be a list of 1 to {max_texts} texts."
        )
    for text in texts:
        if not isinstance(text, str):
            raise RequestError(400, f"Each of {name} must be text.")
        validate_unicode(text, name)


def select_text(value, names, field):
    """Returns the "text" of an object with inputs; other values as they are."""
    if not isinstance(value, dict):
        return value
    if value.keys() != names:
        raise RequestError(
            400, f"The names in {field} must be {', '.join(sorted(names))}."
        )
    return value["text"]


def validate_unicode(text, name):
    """Refuses text that UTF-8 cannot write."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(
            400, f"{name} has half of a surrogate pair."
        ) from None


def parse_count(value):
    """Returns a number, which forms send as text; -1 for anything else."""
    return int(value) if str(value).isdecimal() else -1
