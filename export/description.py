"""What an operator may ask about an export, beside its graph."""

import json
import pathlib

from export.errors import InputError

# Relative to the version's folder; TensorFlow Serving leaves it alone.
DESCRIPTION_FILE = pathlib.PurePath("assets.extra", "translator.json")
_LIMITS = {
    "beam_size",
    "alpha",
    "stop",
    "max_source_tokens",
    "max_output_extra",
}


def read_description(version):
    """Returns the content of an export's translator.json, a dict.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: there is none, or it is not one.
    """
    path = version / DESCRIPTION_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        missing = _LIMITS.difference(content["limits"])
        if content["parameters"] < 1 or missing:
            lacks = ", ".join(sorted(missing)) or "parameters"
            raise ValueError(f"it does not say {lacks}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be used ({error}); export the model again with "
            "export.saved_model."
        ) from error
    return content
