"""Model directories at URLs: downloads them into a cache, and publishes them.

URLs are those of Hugging Face's hub, as hf://owner/name or
hf://owner/name@revision, and all others that fsspec opens.
"""

import hashlib
import importlib.util
import os
import pathlib
import sys
import typing

from export.common.errors import InputError
from export.common.packages import install_command
from export.common.processes import folder_lock
from export.common.progress_bar import ProgressBar
from export.common.storage import (
    atomic_write,
    explain_file_errors,
    explain_read_errors,
    remove_temporary_files,
    resolve_path,
)

if typing.TYPE_CHECKING:
    import upath

# Files of a model directory that are downloaded and published, in this order: a
# folder without config.json is refused, and so is a partly published one.
MODEL_FILES = (
    *("vocabulary.model", "model.weights.h5", "run.json", "scores.json"),
    *("README.md", "config.json"),
)
_CHUNK_BYTES = 2**20


def open_url(url: str) -> "upath.UPath":
    """Returns the UPath of a URL; InputError without the package for it."""
    is_hub = url.startswith("hf://")
    if is_hub and importlib.util.find_spec("huggingface_hub") is None:
        raise InputError(
            f"{url} needs the package huggingface_hub; install it with: "
            f"{install_command('huggingface_hub')}"
        )
    return resolve_path(url)


def download_model(model: str | os.PathLike) -> pathlib.Path:
    """Returns the local path of a model, downloaded if it is at a URL.

    A path is returned as it is. A URL is listed each time; for each
    state of the listing, which on the hub has hashes, the files are downloaded
    once, into `keras_translation/models` below XDG_CACHE_HOME or ~/.cache.
    Raises InputError if the URL cannot be read or has no config.json.
    """
    if "://" not in str(model):
        return pathlib.Path(model)
    url = open_url(str(model))
    with explain_read_errors(url):
        entries = url.fs.ls(url.path, detail=True)
    files = {entry["name"].rpartition("/")[2]: entry for entry in entries}
    files = {name: files[name] for name in MODEL_FILES if name in files}
    if "config.json" not in files:
        raise InputError(
            f"{model} has no config.json; expected the URL of a model "
            "directory, as export.model_card publishes it."
        )
    state = "\n".join([str(model), *map(str, files.values())])
    digest = hashlib.sha256(state.encode()).hexdigest()[:32]
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base, "keras_translation", "models", digest)
    if not folder.exists():
        with folder_lock(folder.parent, "download"):
            # None is being written: it would hold the lock.
            remove_temporary_files(folder.parent, "*")
            _download(url, files, folder)
        print(f"Downloaded {model} into {folder}.", file=sys.stderr)
    return folder


def _download(url, files, folder):
    sizes = {name: entry["size"] or 0 for name, entry in files.items()}
    with (
        atomic_write(folder) as temporary,
        ProgressBar(f"Downloading {url}", sum(sizes.values()), "bytes") as bar,
    ):
        temporary.mkdir()
        for name, size in sizes.items():
            with (temporary / name).open("wb") as file:
                for chunk in _read_chunks(url / name, size):
                    file.write(chunk)
                    bar.update(len(chunk))


def _read_chunks(path, size):
    """Yields the chunks of a file; raises InputError for another size."""
    num_bytes = 0
    with explain_read_errors(path), path.fs.open(path.path, "rb") as stream:
        while num_bytes <= size and (chunk := stream.read(_CHUNK_BYTES)):
            num_bytes += len(chunk)
            yield chunk
    if num_bytes != size:
        raise InputError(
            f"{path} does not have the {size:,} bytes of its listing; it is "
            "being changed, or damaged: run the same command again later."
        )


def publish_model(
    folder: pathlib.Path, card: bytes, url: "upath.UPath"
) -> None:
    """Copies a model directory's MODEL_FILES to a URL.

    `card` has the bytes of README.md. Raises InputError if writing fails.
    """
    with explain_file_errors(url):
        url.fs.makedirs(url.path, exist_ok=True)
        url.fs.pipe_file((url / "README.md").path, card)
        for name in MODEL_FILES:
            if name != "README.md" and (folder / name).exists():
                url.fs.put_file(str(folder / name), (url / name).path)
