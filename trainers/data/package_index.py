"""Downloads a source distribution without running its code.

`pip download` would run the setup script, while `unearth` only downloads the
file. `unearth` does not read pip's configuration, so that is passed on here.
"""

import ast
import re
import ssl
import subprocess
import sys
import tempfile

# Later ones win. Many users set their index for `pip install` only.
_SECTIONS = ("global", "install", "download", ":env:")


class FetchError(Exception):
    """No source has the file; a one-line message without passwords."""


def fetch_source_distribution(name, version, size):
    """Downloads the source distribution of a package, at most `size` bytes.

    Tries the sources of pip's configuration in turn: links, the main index,
    extra indexes. Raises FetchError if none has the file. The caller verifies
    the content.
    """
    options = read_pip_options()
    failures = []
    for source in _list_sources(options):
        try:
            return _download(source, options, name, version, size)
        # After any failure, the next source may have the file.
        except Exception as error:
            [[url]] = source.values()
            failures.append(f"{url}: {error or type(error).__name__}")
    message = " ".join("; ".join(failures).split())
    raise FetchError(
        re.sub(r"//[^/\s@]+@", "//***@", message) or "pip has no index"
    )


def read_pip_options():
    """Returns pip's options from its files and environment variables."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    options = {}
    for section in _SECTIONS:
        pattern = rf"^{section}\.([\w-]+)=(['\"].*)$"
        for option, value in re.findall(pattern, listing, re.MULTILINE):
            options[option] = ast.literal_eval(value)
    return options


def _list_sources(options):
    """Returns PackageFinder's arguments for each source."""
    indexes = [
        options.get("index-url") or "https://pypi.org/simple",
        *options.get("extra-index-url", "").split(),
    ]
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        indexes = []
    return [
        *(
            {"find_links": [url]}
            for url in options.get("find-links", "").split()
        ),
        *({"index_urls": [url]} for url in indexes),
    ]


def _download(source, options, name, version, size):
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    def check_size(link, completed, total):
        if completed > size:
            raise FetchError(f"the file is larger than {size} bytes")

    # PyPIClient has attributes that the finder's interface lacks.

    with PyPIClient(
        trusted_hosts=options.get("trusted-host", "").split(),
        verify=ssl.create_default_context(cafile=options.get("cert") or None),
    ) as client:
        # A job without a terminal must fail, not wait for a password.
        client.auth = MultiDomainBasicAuth(
            prompting=False, index_urls=source.get("index_urls", [])
        )
        finder = PackageFinder(session=client, no_binary=[name], **source)
        match = next(iter(finder.find_matches(f"{name}=={version}")), None)
        if match is None:
            raise FetchError(f"it has no {name} {version}")
        with tempfile.TemporaryDirectory() as folder:
            path = finder.download(
                match.link, folder, hashes={}, download_reporter=check_size
            )
            # Files of local sources are not reported.
            check_size(match.link, path.stat().st_size, None)
            return path.read_bytes()
