"""Where this machine gets its Python packages from, as pip is told it."""

import ast
import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_DEFAULT_INDEX = "https://pypi.org/simple"
# Later ones win. Many set their index for `pip install` alone.
_SECTIONS = ("global", "install", "download", ":env:")
_LINE = re.compile(r"(:env:|[\w-]+)\.([\w-]+)=(.*)")
_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that says where packages are.

    Attributes:
        index_urls: simple indexes, the main one first.
        find_links: folders and pages that link to packages.
        trusted_hosts: hosts whose certificates are not checked.
        certificates: file of the certificates to trust, if not the usual.
        proxy: URL of the proxy to go through, if not the environment's.
    """

    index_urls: tuple[str, ...] = (_DEFAULT_INDEX,)
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    certificates: str | None = None
    proxy: str | None = None


def read_pip_settings() -> PipSettings:
    """Returns pip's settings on this machine: its files and PIP_* variables.

    pip itself is asked (`pip config list`), since only it knows where all
    its files are. Where there is no pip, the PIP_* variables alone count.
    """
    listing = _pip_listing()
    if listing is None:
        return settings_of(_environment_options())
    return settings_of(parse_listing(listing))


def parse_listing(listing: str) -> dict[str, str]:
    """Returns the options in the output of `pip config list`.

    Args:
        listing: lines such as `global.index-url='https://…'`; a line of
            another form is passed over.

    Returns:
        name to value, the most specific section's where several set one.
    """
    by_section: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for line in listing.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match and match[1] in by_section:
            by_section[match[1]][match[2]] = _unquote(match[3])
    merged: dict[str, str] = {}
    for options in by_section.values():
        merged |= options
    return merged


def settings_of(options: Mapping[str, str]) -> PipSettings:
    """Returns the settings that these options (pip's names) amount to."""
    index_urls = (
        options.get("index-url") or _DEFAULT_INDEX,
        *options.get("extra-index-url", "").split(),
    )
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        index_urls = ()
    return PipSettings(
        index_urls=index_urls,
        find_links=tuple(
            # A URL must keep its "//", which a Path would lose.
            str(Path(place).expanduser()) if place.startswith("~") else place
            for place in options.get("find-links", "").split()
        ),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        certificates=options.get("cert") or None,
        proxy=options.get("proxy") or None,
    )


def _pip_listing() -> str | None:
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _environment_options() -> dict[str, str]:
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    }


def _unquote(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value
