"""The language of a text, by the package py3langid."""

import functools
import importlib.util
from collections.abc import Iterable

from export.common.packages import install_command
from export.http_server.fields import RequestError
from export.translators.languages import base_code


def can_detect() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("py3langid") is not None


def detect_language(text: str, codes: Iterable[str]) -> tuple[str, float]:
    """Returns the likeliest of some codes, and its probability in percent.

    Codes without a known language are never returned, unless all are. Raises
    RequestError without the package.
    """
    if not can_detect():
        raise RequestError(
            501,
            "The server cannot detect languages: run "
            f"{install_command('py3langid')}, or give source.",
        )
    codes = [*codes]
    by_base = {base_code(code): code for code in reversed(codes)}
    ranks = _load_identifier().rank(text)
    known = [
        (by_base[name], probability)
        for name, probability in ranks
        if name in by_base
    ]
    if not known:
        return codes[0], 0.0
    code, probability = max(known, key=lambda each: each[1])
    return code, round(100 * float(probability), 1)


@functools.cache
def _load_identifier():
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(
        langid.MODEL_FILE, norm_probs=True
    )
