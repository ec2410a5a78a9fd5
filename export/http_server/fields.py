"""The fields of requests: parsed, and refused if they are wrong."""

import email.message
import json
import re
import typing
import urllib.parse
from collections.abc import Mapping, Sequence, Set

from export.common.errors import InputError
from export.terms.terms import Terms

_MAX_FORM_FIELDS = 100
_MAX_TERMS = 1_000


class RequestError(Exception):
    """A request is refused, with an HTTP status."""

    def __init__(self, status: int, message: str, **headers: str):
        super().__init__(message)
        self.status = status
        self.headers = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


class UploadedFile(typing.NamedTuple):
    """A file in a form: its name, without folders, and its bytes."""

    name: str
    content: bytes


def parse_fields(
    content: bytes, content_type: str, query: str
) -> dict[str, typing.Any]:
    """Returns the fields of a request, without null ones.

    `content` is JSON, whatever `content_type` says, or a form. `query`
    is the part of the URL after "?", which may have fields, too.
    """
    try:
        fields = _unique(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if content_type.strip().lower().startswith("multipart/form-data"):
            fields |= _unique(_parse_multipart(content, content_type))
        elif content or not fields:
            fields |= _parse_text(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise RequestError(
            400, "The request must be a JSON object or a form, in UTF-8."
        ) from None
    return {name: value for name, value in fields.items() if value is not None}


def _parse_text(text):
    # Forms do not begin with a brace, and many clients name no type.
    if text.lstrip()[:1] in ("{", "[") or "=" not in text:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError("It is not a JSON object.")
        return fields
    return _unique(
        urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict")
    )


def _parse_multipart(content, content_type):
    """Returns the names and values of a form of type multipart/form-data."""
    header = email.message.Message()
    header["Content-Type"] = content_type
    boundary = f"\r\n--{header.get_boundary()}".encode("latin-1")
    # The text before the first boundary, the fields, and the end of the form.
    parts = (b"\r\n" + content).split(boundary, _MAX_FORM_FIELDS + 1)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise ValueError("A boundary is missing.")
    pairs = []
    for part in parts[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        header = email.message_from_string(head.decode("utf-8").lstrip())
        name = header.get_param("name", header="content-disposition")
        file_name = header.get_filename()
        if file_name is None:
            pairs.append((name, value.decode("utf-8")))
        else:
            file_name = re.split(r"[/\\]", file_name)[-1]
            pairs.append((name, UploadedFile(file_name, value)))
    return pairs


def _unique(pairs):
    """Returns the fields of a form, a dict; some may be empty."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise RequestError(400, "A form may have each field once.")
    return fields


def read_option(
    fields: Mapping[str, typing.Any], name: str, default: typing.Any = None
) -> typing.Any:
    """Returns an optional field, which is empty in some forms."""
    value = fields.get(name, "")
    return default if value == "" else value


def read_choice(
    fields: Mapping[str, typing.Any], name: str, choices: Sequence[typing.Any]
) -> typing.Any:
    """Returns an optional field, one of the choices; without it the first."""
    value = read_option(fields, name, choices[0])
    if value not in choices:
        names = ", ".join(each for each in choices if each is not None)
        raise RequestError(400, f"{name} must be one of {names}.")
    return value


def read_flag(fields: Mapping[str, typing.Any], name: str) -> bool:
    """Returns an optional boolean field, which forms send as text."""
    text = str(read_option(fields, name, False)).lower()
    if text not in ("true", "false"):
        raise RequestError(400, f"{name} must be true or false.")
    return text == "true"


def read_terms(fields: Mapping[str, typing.Any]) -> Terms | None:
    """Returns the field "terms": an object, or lines of source TAB target."""
    given = read_option(fields, "terms")
    if given is None:
        return None
    if isinstance(given, str):
        lines = [line for line in given.splitlines() if line.strip()]
        pairs: list[typing.Any] = [line.split("\t") for line in lines]
    else:
        pairs = [*given.items()] if isinstance(given, dict) else [()]
    if len(pairs) > _MAX_TERMS or not all(
        len(pair) == 2 and isinstance(pair[1], str) for pair in pairs
    ):
        raise RequestError(
            400,
            f"terms must be an object of up to {_MAX_TERMS} terms and their "
            "translations, or lines of a term, a tab and its translation.",
        )
    for pair in pairs:
        validate_unicode("".join(pair), "terms")
    try:
        return Terms(pairs) if pairs else None
    except InputError as error:
        raise RequestError(400, str(error)) from None


def validate_texts(texts: typing.Any, name: str, max_texts: int) -> None:
    """Refuses anything but a list of texts."""
    if not isinstance(texts, list) or not 0 < len(texts) <= max_texts:
        raise RequestError(
            400, f"{name} must be a list of 1 to {max_texts} texts."
        )
    for text in texts:
        if not isinstance(text, str):
            raise RequestError(400, f"Each of {name} must be text.")
        validate_unicode(text, name)


def select_text(value: typing.Any, names: Set[str], field: str) -> typing.Any:
    """Returns the "text" of an object with inputs; other values as they are."""
    if not isinstance(value, dict):
        return value
    if value.keys() != names:
        raise RequestError(
            400, f"The names in {field} must be {', '.join(sorted(names))}."
        )
    return value["text"]


def validate_unicode(text: str, name: str) -> None:
    """Refuses text that UTF-8 cannot write."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(
            400, f"{name} has half of a surrogate pair."
        ) from None


def parse_count(value: typing.Any) -> int:
    """Returns a number, which forms send as text; -1 for anything else."""
    text = str(value).strip().removesuffix(".0")
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
