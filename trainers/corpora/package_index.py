"""Fetches a source distribution from the package index, running nothing.

`pip download` runs the set-up script of a source distribution; the library
`unearth` only fetches the file. It reads no configuration of pip, so what
that says about where packages are is handed to it here.
"""

import ast
import dataclasses
import os
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


class FetchError(Exception):
    """No source of packages gave the file; the message says why, by source.

    It is one line and holds no password of an index.
    """


def fetch_source_distribution(name: str, version: str, size: int) -> bytes:
    """Returns the content of the source distribution `name` of `version`.

    Every source that pip is configured with is asked in turn (links first,
    then the main index, then the extra ones); the first that has the file
    gives it. What comes back is not checked here, save that it is not read
    on when it is larger than expected.

    Args:
        name: the package's name.
        version: its exact version.
        size: the expected size in bytes.

    Raises:
        FetchError: no source has the file or could be reached, or it is
            larger than `size`.
    """
    settings = read_pip_settings()
    failures = []
    for source in _sources(settings):
        try:
            content = _fetch_from(source, settings, name, version, size)
        # Whatever fails in one source's client, the next one may have it.
        except Exception as error:
            failures.append(f"{_label(source)}: {_one_line(error)}")
            continue
        if content is not None:
            return content
        failures.append(f"{_label(source)}: no {name} {version} there")
    raise FetchError(
        "; ".join(failures) or "pip is configured without any source"
    )


def _sources(settings: PipSettings) -> list[dict[str, str]]:
    links = [
        {"find_links": place}
        for place in settings.find_links
        if "://" in place or Path(place).exists()
    ]
    return links + [{"index_urls": url} for url in settings.index_urls]


def _fetch_from(
    source: dict[str, str],
    settings: PipSettings,
    name: str,
    version: str,
    size: int,
) -> bytes | None:
    """Returns the file's content, or None where the source lacks it."""
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    sources: dict[str, Any] = {kind: [url] for kind, url in source.items()}
    # PyPIClient declares more than the interface that the finder names.
    client: Any
    with PyPIClient(
        trusted_hosts=settings.trusted_hosts, **_client_options(settings)
    ) as client:
        # A job that runs alone must fail, not wait for a password.
        client.auth = MultiDomainBasicAuth(
            prompting=False, index_urls=sources.get("index_urls", [])
        )
        finder = PackageFinder(session=client, no_binary=[name], **sources)
        match = next(iter(finder.find_matches(f"{name}=={version}")), None)
        if match is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = finder.download(
                match.link,
                folder,
                hashes={},
                download_reporter=_SizeLimit(size),
            )
            return _read(path, size)


def _client_options(settings: PipSettings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.certificates:
        options["verify"] = ssl.create_default_context(
            cafile=settings.certificates
        )
    if settings.proxy:
        options["proxy"] = settings.proxy
    return options


class _SizeLimit:
    """A download reporter that breaks off what grows too large."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, link: Any, completed: int, total: int | None) -> None:
        if completed > self._size:
            raise FetchError(f"the file is larger than {self._size} bytes")


def _read(path: Path, size: int) -> bytes:
    # A file of a local source comes as itself: no reporter has seen it.
    _SizeLimit(size)(path, path.stat().st_size, None)
    return path.read_bytes()


def _label(source: dict[str, str]) -> str:
    return _without_password(next(iter(source.values())))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return _without_password(text)


def _without_password(text: str) -> str:
    return re.sub(r"//[^/\s@]+@", "//***@", text)
