"""Reads the JSON and YAML files of pretrained models as plain data."""

import json

import yaml

from export.common.errors import InputError
from export.common.paths import explain_read_errors

# Marian writes a mapping of lists at most.
_MAX_DEPTH = 3
# libyaml's, where PyYAML has it, is twenty times as fast.
_BASE_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_bytes(path):
    """Returns the content of a file; raises InputError if unreadable."""
    with explain_read_errors(path):
        return path.read_bytes()


def parse_json(content, name):
    """Returns the object of a JSON file; duplicate names are refused."""
    try:
        fields = json.loads(content, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise InputError(f"{name} must hold a JSON object.")
    return fields


def read_json(path):
    """Returns the fields of a JSON file that are not null.

    To transformers null is a field's default.
    """
    fields = parse_json(read_bytes(path), path)
    return {name: value for name, value in fields.items() if value is not None}


def read_optional_json(path):
    """Returns the same, or an empty dict where there is no such file."""
    return read_json(path) if path.exists() else {}


def _without_duplicates(pairs):
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name stands there twice")
    return fields


class _TextLoader(_BASE_LOADER):
    """A safe loader that also keeps every scalar as the text it is.

    SafeLoader makes false of the piece `no`, and a number of `1_000`.
    """

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("a name in it is not text")
        if len(set(keys)) != len(keys):
            raise ValueError("a name stands there twice")
        return super().construct_mapping(node, deep)


def parse_yaml(content, name):
    """Returns a dict of str to str, list or dict of a YAML file.

    References, by which a small file stands for an endless one, and deep
    nesting are refused.

    Args:
        content: bytes of the file.
        name: name of the file, for messages.

    Raises:
        InputError: it is not YAML, or not a mapping as Marian writes it.
    """
    try:
        _check_events(yaml.parse(content, Loader=_BASE_LOADER))
        fields = yaml.load(content, Loader=_TextLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name} is not YAML of Marian: {reason}.") from None
    if not isinstance(fields, dict):
        raise InputError(f"{name} must hold a YAML mapping, name to value.")
    return fields


def _check_events(events):
    depth = 0
    for event in events:
        if getattr(event, "anchor", None) is not None:
            raise ValueError(f"it has a reference, {event.anchor}")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
