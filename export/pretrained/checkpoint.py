"""Reads the arrays of a checkpoint file, checked, and without unpickling."""

import contextlib
import json
import pathlib
import zipfile

# Makes numpy know the dtype bfloat16.
import ml_dtypes  # noqa: F401
import numpy as np
import safetensors

from export.common.errors import InputError
from export.pretrained.torch_file import TorchFile

_DTYPES = ("float32", "float16", "bfloat16", "float64")
_MAX_TEXT_BYTES = 2**20
# What readers raise for damaged files.
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, OverflowError),
    *(MemoryError, NotImplementedError, RecursionError),
    *(zipfile.BadZipFile, safetensors.SafetensorError),
)


class Checkpoint:
    """Named arrays of a file, each read when it is asked for.

    Args:
        path: pathlib.Path of a `.safetensors`, `.bin` or `.npz` file, or of
            the `.index.json` of shards.

    Attributes:
        names: set of the names of all arrays.

    Raises:
        InputError: the file is missing or damaged.
    """

    def __init__(self, path):
        self.path = path
        with self._explain_damage(path):
            self._file = _READERS[path.suffix](path)
            self.names = set(self._file.names())

    def shape(self, name):
        """Returns the declared shape; raises InputError if missing."""
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name}.")
        with self._explain_damage(f"{self.path}: {name}"):
            return self._file.shape(name)

    def check(self, name, shape):
        """Raises InputError if an array is missing or of another shape."""
        declared = self.shape(name)
        if declared != shape:
            raise self._wrong(name, f"the shape {list(shape)}", list(declared))

    def read(self, name, shape):
        """Returns an array as float32; raises InputError if damaged."""
        # Before it is read: a made-up shape may be of any size.
        self.check(name, shape)
        array = self.read_as_stored(name)
        if array.dtype.name not in _DTYPES:
            raise self._wrong(name, " or ".join(_DTYPES), array.dtype.name)
        with np.errstate(over="ignore"):
            array = np.asarray(array, np.float32)
        if not np.isfinite(array).all():
            raise self._wrong(name, "finite numbers", "infinite ones or NaN")
        return array

    def read_text(self, name):
        """Returns the bytes of a text stored as an array, without NUL."""
        shape = self.shape(name)
        if len(shape) != 1 or shape[0] > _MAX_TEXT_BYTES:
            expected = f"a text of at most {_MAX_TEXT_BYTES:,} bytes"
            raise self._wrong(name, expected, f"the shape {list(shape)}")
        array = self.read_as_stored(name)
        if array.dtype.name not in ("uint8", "int8"):
            raise self._wrong(name, "bytes", array.dtype.name)
        return array.tobytes().rstrip(b"\0")

    def read_as_stored(self, name):
        """Returns an array, unchecked, with the dtype of the file."""
        with self._explain_damage(f"{self.path}: {name}"):
            return self._file.read(name)

    def validate_names(self, names, network):
        """Raises InputError if an array is not among those of a network."""
        unknown = sorted(self.names - names)
        if unknown:
            raise InputError(
                f"{self.path} has {len(unknown)} arrays that no {network} has, "
                f"such as {unknown[0]}; another network is not supported."
            )

    def _wrong(self, name, expected, actual):
        return InputError(
            f"{self.path}: expected {expected} for {name}, got {actual}."
        )

    @staticmethod
    @contextlib.contextmanager
    def _explain_damage(name):
        try:
            yield
        except _DAMAGED as error:
            lines = str(error).strip().splitlines() or ["it is damaged"]
            reason = getattr(error, "strerror", None) or lines[0].rstrip(".")
            raise InputError(f"{name} cannot be read: {reason}.") from error


class _Safetensors:
    def __init__(self, path):
        # It maps the file, and its own error for a missing one is unclear.
        path.stat()
        self._file = safetensors.safe_open(str(path), framework="np")

    def names(self):
        return self._file.keys()

    def shape(self, name):
        return tuple(self._file.get_slice(name).get_shape())

    def read(self, name):
        dtype = self._file.get_slice(name).get_dtype()
        if dtype not in ("F32", "F16", "BF16", "F64"):
            raise ValueError(f"it holds {dtype} numbers")
        return self._file.get_tensor(name)


class _Npz:
    def __init__(self, path):
        self._path = path

    def names(self):
        with self._open() as file:
            return file.files

    def shape(self, name):
        with self._open() as file, file.zip.open(f"{name}.npy") as header:
            version = np.lib.format.read_magic(header)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            return read_header(header)[0]

    def read(self, name):
        with self._open() as file:
            return file[name]

    @contextlib.contextmanager
    def _open(self):
        # numpy leaves the file of a damaged archive open.
        with self._path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is not an .npz archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                yield file


class _Shards:
    """Files of a folder, and the arrays that each has."""

    def __init__(self, path):
        index = json.loads(path.read_bytes())
        files = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(files, dict) or not files:
            raise ValueError("it has no weight_map, name to file")
        self._files = {}
        for name in dict.fromkeys(map(str, files.values())):
            if pathlib.PurePath(name).name != name or "\\" in name:
                raise ValueError(f"{name!r} is not a file of its folder")
            if not name.endswith((".safetensors", ".bin")):
                raise ValueError(f"{name} is neither .safetensors nor .bin")
            shard = Checkpoint(path.with_name(name))
            if shard.names & self._files.keys():
                raise ValueError(f"an array of {name} is in another file too")
            self._files |= dict.fromkeys(shard.names, shard)
        missing = files.keys() - self._files.keys()
        if missing:
            name = min(missing)
            raise ValueError(f"{files[name]} has no array {name}")

    def names(self):
        return self._files.keys()

    def shape(self, name):
        return self._files[name].shape(name)

    def read(self, name):
        return self._files[name].read_as_stored(name)


_READERS = {
    ".safetensors": _Safetensors,
    ".npz": _Npz,
    ".bin": TorchFile,
    ".json": _Shards,
}


def open_checkpoint(folder, names):
    """Returns the Checkpoint of the first of some files that a folder has.

    Args:
        folder: pathlib.Path.
        names: file names, the preferred one first, each whole or in shards
            with an index.

    Raises:
        InputError: it has none of them, or the file is damaged.
    """
    for name in names:
        for path in (folder / name, folder / f"{name}.index.json"):
            if path.exists():
                return Checkpoint(path)
    raise InputError(
        f"{folder} has no {' or '.join(names)}, nor the index of their shards; "
        "save the model with MarianMTModel.save_pretrained."
    )
