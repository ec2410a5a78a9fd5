"""Fetches a source distribution from the package index, running nothing.

`pip download` runs the set-up script of a source distribution; the library
`unearth` only fetches the file. It reads no configuration of pip, so what
that says about where packages are is handed to it here.
"""

import re
import ssl
import tempfile
from pathlib import Path
from typing import Any

from trainers.corpora.pip_settings import PipSettings, read_pip_settings


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
