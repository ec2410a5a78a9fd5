"""JSON and YAML: values that are text; keys and everything else stay."""

import json
import re
import typing

from export.common.errors import InputError
from export.formats.file_format import FileOptions, OpenFile, value_segment
from export.formats.files import Place, splice
from export.lines.file_formats import decode_document

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"(?P<is_key>\s*:)?')

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")


def open_json(content: bytes, options: FileOptions) -> OpenFile:
    """Opens JSON; InputError if it is none."""
    del options
    text = decode_document(content)
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"The file is not JSON: {error}.") from None
    # An English file may have no character that shows it.
    ensure_ascii = "\\u" in text and text.isascii()

    def place(match):
        # Halves of pairs of surrogates would not be UTF-8.
        value = json.loads(match[0])
        value = value.encode("utf-8", "replace").decode("utf-8")

        def encode(translation):
            return json.dumps(translation, ensure_ascii=ensure_ascii)

        return Place(*match.span(), value_segment(value), encode)

    # Only keys have a colon after them.
    matches = _JSON_STRING.finditer(text)
    places = [place(each) for each in matches if not each["is_key"]]
    return splice(text, [each for each in places if each.segment.text.strip()])


def open_yaml(content: bytes, options: FileOptions) -> OpenFile:
    """Opens YAML, also of several documents; InputError if it is none."""
    import yaml

    del options
    text = decode_document(content)
    scalars: dict[int, typing.Any] = {}
    try:
        for document in yaml.compose_all(text, yaml.SafeLoader):
            _collect_scalars(document, scalars)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The file is not YAML: {reason}.") from None

    def place(node):
        start, end = node.start_mark.index, node.end_mark.index
        # Before it are its anchor and its tag.
        start = _PROPERTIES.match(text, start, end).end()
        raw = text[start:end]

        def encode(translation):
            return _encode_yaml(translation, raw, node.style)

        return Place(start, end, value_segment(node.value), encode)

    places = [place(node) for node in scalars.values()]
    return splice(text, sorted(places))


def _collect_scalars(root, scalars):
    """Adds the nodes of text to a dict by identity, also those of aliases."""
    seen, stack = set(), [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            stack += [value for _, value in node.value]
        elif node.id == "sequence":
            stack += node.value
        elif node.tag == "tag:yaml.org,2002:str" and node.value.strip():
            scalars[id(node)] = node


def _encode_yaml(text, raw, style):
    """Returns the scalar of a text, if possible in the style of another."""
    import yaml

    quoted = json.dumps(text, ensure_ascii=False)
    if style in ("|", ">"):
        header, _, body = raw.partition("\n")
        indent = re.match(r"(?: *\n)*( *)", body)[1]
        ending = re.search(r"\s*\Z", body)[0]
        separator = "\n" if style == "|" else "\n\n"
        lines = separator.join(text.rstrip("\n").split("\n")).split("\n")
        lines = [indent + line if line else "" for line in lines]
        candidate = "\n".join([header, *lines]) + ending
        found = candidate
        quoted += ending
    else:
        candidate = {
            None: text,
            "'": "'" + text.replace("'", "''") + "'",
        }.get(style, quoted)
        # What is one item here is one everywhere.
        found = f"[{candidate}]"
    try:
        value = yaml.safe_load(found)
    except (yaml.YAMLError, ValueError):
        return quoted
    return candidate if value in (text, [text]) else quoted
