"""Gets the file that the embedded corpus is read from, and checks it.

The English–French pairs of Tatoeba lie in the source distribution of the
Python package `nmt` 0.0.6. Only one text file of it is read, after its hash
is checked; nothing of that package is installed, unpacked to disk or run.
"""

import hashlib
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

from export.atomic import written_whole
from export.command import InputError
from trainers.corpora.package_index import (
    FetchError,
    fetch_source_distribution,
)

PACKAGE = "nmt"
VERSION = "0.0.6"
FILE_NAME = f"{PACKAGE}-{VERSION}.tar.gz"
SIZE = 15_744_217
SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"
_ZIP_IN_TAR = f"{PACKAGE}-{VERSION}/data/fra-eng.zip"
_TEXT_IN_ZIP = "fra.txt"
_CACHE_VARIABLE = "KERAS_TRANSFORMER_CACHE"


def read_tatoeba_text() -> str:
    """Returns the text of fra.txt, fetching the archive where needed.

    The archive is kept in the cache folder and its hash is checked at every
    use; one that is damaged is fetched anew.

    Raises:
        InputError: the archive cannot be had, is not the expected one, or
            cannot be kept.
    """
    path = cache_folder() / FILE_NAME
    content = _read_cached(path)
    if content is None:
        content = _fetch(path.parent)
        with written_whole(path) as partial:
            partial.write_bytes(content)
    return _text_of(content)


def cache_folder() -> Path:
    """Returns the folder for downloads; it need not be there yet.

    $KERAS_TRANSFORMER_CACHE where set, else keras_transformer in
    $XDG_CACHE_HOME, else ~/.cache/keras_transformer.
    """
    own = os.environ.get(_CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    general = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    if not general.is_absolute():
        general = Path.home() / ".cache"
    return general / "keras_transformer"


def _is_genuine(content: bytes) -> bool:
    return (
        len(content) == SIZE and hashlib.sha256(content).hexdigest() == SHA256
    )


def _read_cached(path: Path) -> bytes | None:
    try:
        if path.stat().st_size == SIZE:
            content = path.read_bytes()
            if _is_genuine(content):
                return content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"Cannot read {path} ({error.strerror}); set {_CACHE_VARIABLE} "
            "to a folder that can be read and written."
        ) from error
    _say(f"{path} is damaged (wrong size or sha256); fetching it anew.")
    return None


def _fetch(folder: Path) -> bytes:
    _say(f"Fetching the Tatoeba corpus ({SIZE / 1e6:.1f} MB) to {folder}.")
    try:
        content = fetch_source_distribution(PACKAGE, VERSION, SIZE)
    except FetchError as error:
        raise InputError(
            f"Cannot fetch the Tatoeba corpus ({error}); set "
            f"{_CACHE_VARIABLE} to a folder that holds {FILE_NAME}, or train "
            "on files of your own with --dataset=text:PREFIX."
        ) from error
    if not _is_genuine(content):
        raise InputError(
            f"The {FILE_NAME} that the package index gave is not the "
            f"expected file ({SIZE} bytes, sha256 {SHA256}) and was thrown "
            f"away; set {_CACHE_VARIABLE} to a folder that holds the right "
            "one."
        )
    return content


def _text_of(content: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        packed = tar.extractfile(_ZIP_IN_TAR)
        # None stands for a folder of that name: the hash rules it out.
        assert packed is not None
        inner = io.BytesIO(packed.read())
    with zipfile.ZipFile(inner) as archive:
        return archive.read(_TEXT_IN_ZIP).decode("utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
