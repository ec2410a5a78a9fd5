"""Reads and validates the arrays of a checkpoint, without unpickling."""

import contextlib
import functools
import json
import pathlib
import zipfile
import zlib

# Registers the dtype bfloat16 with NumPy.
import ml_dtypes  # noqa: F401
import numpy as np
import safetensors

from export.common.errors import InputError
from export.pretrained.config_files import wrong_value
from export.pretrained.torch_file import LazyArray, open_torch_file

_DTYPES = ("float32", "float16", "bfloat16", "float64")
_MAX_TEXT_BYTES = 2**20
# Readers of headers, by version of NumPy's format.
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Exceptions that readers raise for damaged files.
_READ_ERRORS = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, OverflowError),
    *(MemoryError, RuntimeError, zlib.error),
    *(zipfile.BadZipFile, safetensors.SafetensorError),
)


class Checkpoint:
    """Named arrays of a file, each read on demand.

    The file is `.safetensors`, `.bin` or `.npz`, or the `.index.json` of
    shards. `names` is the set of the names of all arrays.

    Raises:
        InputError: the file is missing or damaged.
    """

    def __init__(self, path):
        self.path = path
        with self._explain_damage(path):
            self._arrays = _OPENERS[path.suffix](path)
        self.names = {*self._arrays}

    def shape(self, name):
        """Returns the declared shape; raises InputError if missing."""
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name}.")
        return self._arrays[name].shape

    def check(self, name, shape):
        """Raises InputError if an array is missing or has another shape."""
        declared = self.shape(name)
        # Marian stores vectors as [1, n].
        if declared != shape and declared != (1, *shape):
            expected = f"the shape {list(shape)}"
            raise wrong_value(self.path, name, list(declared), expected)

    def read(self, name, shape):
        """Returns an array as float32; raises InputError if damaged."""
        # Before reading, because a hostile file may declare any size.
        self.check(name, shape)
        array = self._read(name)
        kind = array.dtype.name
        if kind not in _DTYPES:
            raise wrong_value(self.path, name, kind, " or ".join(_DTYPES))
        with np.errstate(over="ignore"):
            array = np.asarray(array, np.float32)
        if not np.isfinite(array).all():
            wrong = float(array[~np.isfinite(array)][0])
            raise wrong_value(self.path, name, wrong, "finite numbers")
        return array.reshape(shape)

    def read_text(self, name):
        """Returns the bytes of a text stored as an array, without NUL."""
        shape = self.shape(name)
        if len(shape) != 1 or shape[0] > _MAX_TEXT_BYTES:
            expected = f"at most {_MAX_TEXT_BYTES:,} bytes of text"
            raise wrong_value(self.path, name, list(shape), expected)
        array = self._read(name)
        if array.dtype.name not in ("uint8", "int8"):
            raise wrong_value(self.path, name, array.dtype.name, "bytes")
        return array.tobytes().rstrip(b"\0")

    def _read(self, name):
        with self._explain_damage(f"{self.path}: {name}"):
            return self._arrays[name].read()

    def validate_names(self, names):
        """Raises InputError if the checkpoint has arrays not in `names`."""
        unknown = sorted(self.names - names)
        if unknown:
            raise InputError(
                f"{self.path}: expected the arrays of the paper's Transformer, "
                f"got {len(unknown)} others, such as {unknown[0]}."
            )

    @staticmethod
    @contextlib.contextmanager
    def _explain_damage(name):
        try:
            yield
        except _READ_ERRORS as error:
            lines = str(error).strip().splitlines() or ["it is damaged"]
            reason = getattr(error, "strerror", None) or lines[0].rstrip(".")
            raise InputError(f"{name} cannot be read: {reason}.") from error


def _open_safetensors(path):
    # Raises for a missing file, more clearly than safetensors does.
    path.stat()
    file = safetensors.safe_open(str(path), framework="np")

    def read(name):
        dtype = file.get_slice(name).get_dtype()
        if dtype not in ("F32", "F16", "BF16", "F64"):
            raise ValueError(f"it holds {dtype} numbers")
        return file.get_tensor(name)

    return {
        name: LazyArray(
            tuple(file.get_slice(name).get_shape()),
            functools.partial(read, name),
        )
        for name in file.keys()  # noqa: SIM118
    }


def _open_npz(path):
    archive = zipfile.ZipFile(path)

    def read(name):
        with archive.open(name) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    arrays = {}
    for name in archive.namelist():
        with archive.open(name) as stream:
            version = np.lib.format.read_magic(stream)
            shape = _READ_HEADER[version](stream)[0]
        array = LazyArray(shape, functools.partial(read, name))
        arrays[name.removesuffix(".npy")] = array
    return arrays


def _open_shards(path):
    index = json.loads(path.read_bytes())
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not files:
        raise ValueError("it has no weight_map, name to file")
    arrays = {}
    for name in dict.fromkeys(map(str, files.values())):
        is_file_name = pathlib.PurePath(name).name == name and "\\" not in name
        if not is_file_name or not name.endswith((".safetensors", ".bin")):
            raise ValueError(
                f"{name!r} is no .safetensors or .bin file of its folder"
            )
        shard = Checkpoint(path.with_name(name))._arrays
        if shard.keys() & arrays.keys():
            raise ValueError(f"an array of {name} is in another file too")
        arrays |= shard
    missing = files.keys() - arrays.keys()
    if missing:
        name = min(missing)
        raise ValueError(f"{files[name]} has no array {name}")
    return arrays


_OPENERS = {
    ".safetensors": _open_safetensors,
    ".npz": _open_npz,
    ".bin": open_torch_file,
    ".json": _open_shards,
}


def open_checkpoint(folder, names):
    """Returns the Checkpoint of the first of `names` that a folder has.

    Each file may also be split into shards with an index.

    Raises:
        InputError: none of the files exists, or the file is damaged.
    """
    for name in names:
        for path in (folder / name, folder / f"{name}.index.json"):
            if path.exists():
                return Checkpoint(path)
    raise InputError(
        f"{folder} has no {' or '.join(names)}, nor the index of their shards; "
        "save the model with MarianMTModel.save_pretrained."
    )
