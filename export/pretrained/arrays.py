"""The arrays of a model file: checked, and nothing unpickled."""

import contextlib
import json
import pathlib
import zipfile

# Makes numpy know the dtype bfloat16.
import ml_dtypes  # noqa: F401
import numpy as np
import safetensors

from export.errors import InputError
from export.pretrained.torch_file import TorchFile

# What numbers of a model may be stored as.
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_LONGEST_TEXT = 2**20


class Arrays:
    """Named arrays of a file, each read when it is asked for.

    Args:
        path: pathlib.Path of a `.safetensors`, `.bin` or `.npz` file, or of the
            `.index.json` of shards.

    Attributes:
        path: as given.
        names: set of the names of all arrays.

    Raises:
        InputError: the file is missing or damaged.
    """

    def __init__(self, path):
        self.path = path
        try:
            self._file = _READERS[path.suffix](path)
            self.names = set(self._file.names())
        except _BROKEN as error:
            raise InputError(
                f"{path} cannot be read: {_reason(error)}."
            ) from error

    def shape(self, name):
        """Returns the shape that an array is said to have.

        Raises:
            InputError: there is no such array.
        """
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name}.")
        return self._ask(self._file.shape, name)

    def check(self, name, shape):
        """Checks that an array is there, and its shape.

        Args:
            name: of the array.
            shape: tuple of int that it must have.

        Raises:
            InputError: there is no such array, or it has another shape.
        """
        declared = self.shape(name)
        if declared != shape:
            raise InputError(
                f"{self.path}: {name} has shape {list(declared)}, but the "
                f"configuration needs {list(shape)}."
            )

    def read(self, name, shape):
        """Returns an array as float32.

        Args:
            name: of the array.
            shape: tuple of int that it must have.

        Raises:
            InputError: there is no such array, or it has another shape, other
                than floating-point numbers, or an infinite one.
        """
        # Before it is read: a made-up shape may be of any size.
        self.check(name, shape)
        array = self.read_as_stored(name)
        if array.dtype.name not in _DTYPES:
            raise InputError(
                f"{self.path}: {name} holds {array.dtype.name} numbers; "
                f"{', '.join(_DTYPES)} are supported."
            )
        with np.errstate(over="ignore"):
            array = np.asarray(array, np.float32)
        if not np.isfinite(array).all():
            raise InputError(
                f"{self.path}: {name} holds numbers that are infinite or no "
                "numbers; the model is damaged."
            )
        return array

    def read_text(self, name):
        """Returns the bytes of a text that is stored as an array.

        Args:
            name: of an array of single bytes; NUL at its end is left out.

        Raises:
            InputError: there is no such array, or it is no text.
        """
        shape = self.shape(name)
        if len(shape) != 1 or shape[0] > _LONGEST_TEXT:
            raise InputError(
                f"{self.path}: {name} has shape {list(shape)}, which is none "
                f"of a text of at most {_LONGEST_TEXT:,} bytes."
            )
        array = self.read_as_stored(name)
        if array.dtype.name not in ("uint8", "int8"):
            raise InputError(
                f"{self.path}: {name} holds {array.dtype.name} and no bytes."
            )
        return array.tobytes().rstrip(b"\0")

    def read_as_stored(self, name):
        """Returns an array, unchecked, with the dtype of the file."""
        return self._ask(self._file.read, name)

    def _ask(self, function, name):
        try:
            return function(name)
        except _BROKEN as error:
            raise InputError(
                f"{self.path}: {name} cannot be read: {_reason(error)}."
            ) from error


_BROKEN = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    zipfile.BadZipFile,
    safetensors.SafetensorError,
)


def _reason(error):
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().splitlines()[0].rstrip(".") or "damaged"


class _Safetensors:
    """Reads one array at a time."""

    def __init__(self, path):
        # It maps the file and fails on none with words of its own.
        path.stat()
        self._file = safetensors.safe_open(str(path), framework="np")

    def names(self):
        return self._file.keys()

    def shape(self, name):
        return tuple(self._file.get_slice(name).get_shape())

    def read(self, name):
        kind = self._file.get_slice(name).get_dtype()
        if kind not in ("F32", "F16", "BF16", "F64"):
            raise ValueError(f"it holds {kind} numbers")
        return self._file.get_tensor(name)


class _Npz:
    """Reads one array at a time, and no pickled object."""

    def __init__(self, path):
        self._path = path

    def names(self):
        with self._opened() as file:
            return file.files

    def shape(self, name):
        with self._opened() as file, file.zip.open(f"{name}.npy") as header:
            version = np.lib.format.read_magic(header)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            return read_header(header)[0]

    def read(self, name):
        with self._opened() as file:
            return file[name]

    @contextlib.contextmanager
    def _opened(self):
        # A file for each call: one that stays open is nobody's to close, and
        # numpy leaves that of a damaged archive open.
        with self._path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is no .npz archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                yield file


class _Shards:
    """Files in a folder, and which of them has which array."""

    def __init__(self, path):
        # As large as the names of a model, which has them besides.
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
            shard = Arrays(path.with_name(name))
            twice = shard.names & self._files.keys()
            if twice:
                raise ValueError(f"{min(twice)} is in several files")
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


def open_arrays(folder, names):
    """Returns the Arrays of the first of some files that a folder has.

    Args:
        folder: pathlib.Path.
        names: of files, the preferred one first, each whole or in shards with
            an index.

    Raises:
        InputError: it has none of them, or the file is damaged.
    """
    for name in names:
        for file in (name, f"{name}.index.json"):
            if pathlib.Path(folder, file).exists():
                return Arrays(pathlib.Path(folder, file))
    others = sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix in (".bin", ".safetensors", ".h5", ".msgpack", ".pt")
    )
    raise InputError(
        f"{folder} has no {' and no '.join(names)}, nor an index of their "
        f"shards{', but ' + ', '.join(others) if others else ''}; save the "
        "model with MarianMTModel.save_pretrained."
    )
