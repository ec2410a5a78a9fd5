"""Reads and validates the arrays of the files that store weights."""

import contextlib
import functools
import json
import pathlib
import zipfile

import numpy as np
import safetensors

from export.common.errors import InputError
from export.pretrained.config_files import wrong_value_error
from export.pretrained.torch_file import LazyArray, open_torch_file

_DTYPES = ("float32", "float16", "bfloat16", "float64")
_MAX_TEXT_BYTES = 2**20
_PART_SIZE = 2**22
# By version of NumPy's format.
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class WeightsFile:
    """Named arrays of a file, each read on demand.

    The file is `.safetensors`, `.bin` or `.npz`, or the `.index.json` of
    shards. `names` is the set of the names of all arrays. All methods raise
    InputError if the file or an array is missing, damaged or unexpected.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._arrays = _open_arrays(path)
        self.names = {*self._arrays}

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the declared shape of an array."""
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name}.")
        return self._arrays[name].shape

    def validate_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Raises InputError if an array is missing or has another shape."""
        declared = self.shape(name)
        # Marian stores vectors as [1, n].
        if declared != shape and declared != (1, *shape):
            expected = f"the shape {list(shape)}"
            raise wrong_value_error(self.path, name, list(declared), expected)

    def validate_names(self, names: set[str]) -> None:
        """Raises InputError if the file has arrays not in `names`."""
        unknown = sorted(self.names - names)
        if unknown:
            raise InputError(
                f"{self.path}: expected the arrays of the paper's Transformer, "
                f"got {len(unknown)} others, such as {unknown[0]}."
            )

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Returns an array as float32."""
        return np.asarray(self.read_stored(name, shape), np.float32)

    def read_stored(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Returns an array in its own dtype, finite in float32."""
        # Before reading: a hostile file may declare any size.
        self.validate_shape(name, shape)
        array = self._read(name)
        dtype = array.dtype.name
        if dtype not in _DTYPES:
            expected = " or ".join(_DTYPES)
            raise wrong_value_error(self.path, name, dtype, expected)
        flat = array.reshape(-1)
        # In parts: an array may have gigabytes.
        for start in range(0, len(flat), _PART_SIZE):
            with np.errstate(over="ignore"):
                part = np.asarray(flat[start : start + _PART_SIZE], np.float32)
            if not np.isfinite(part).all():
                value, expected = part[~np.isfinite(part)][0], "finite numbers"
                raise wrong_value_error(self.path, name, float(value), expected)
        return array.reshape(shape)

    def read_text(self, name: str) -> bytes:
        """Returns the bytes of a text stored as an array, without NUL."""
        shape = self.shape(name)
        if len(shape) != 1 or shape[0] > _MAX_TEXT_BYTES:
            expected = f"at most {_MAX_TEXT_BYTES:,} bytes of text"
            raise wrong_value_error(self.path, name, list(shape), expected)
        array = self._read(name)
        if array.dtype.name not in ("uint8", "int8"):
            raise wrong_value_error(self.path, name, array.dtype.name, "bytes")
        return array.tobytes().rstrip(b"\0")

    def _read(self, name):
        with _explain_damage(f"{self.path}: {name}"):
            return self._arrays[name].read()


def open_weights_file(folder: pathlib.Path) -> WeightsFile:
    """Returns the WeightsFile of a directory of `save_pretrained`.

    Raises InputError if it does not exist or is damaged.
    """
    names = "model.safetensors", "pytorch_model.bin"
    for name in names:
        for path in (folder / name, folder / f"{name}.index.json"):
            if path.exists():
                return WeightsFile(path)
    raise InputError(
        f"{folder} has no {' or '.join(names)}, nor the index of their shards; "
        "save the model with MarianMTModel.save_pretrained."
    )


@contextlib.contextmanager
def _explain_damage(name):
    """Converts errors of reading a damaged file to InputError."""
    try:
        yield
    except InputError:
        raise
    # Readers of a damaged file may raise anything.
    except Exception as error:
        lines = str(error).strip().splitlines() or ["it is damaged"]
        reason = getattr(error, "strerror", None) or lines[0].rstrip(".")
        raise InputError(f"{name} cannot be read: {reason}.") from error


def _open_arrays(path):
    """Returns a dict of LazyArrays by name."""
    with _explain_damage(path):
        return _OPENERS[path.suffix](path)


def _open_safetensors(path):
    # Raises for a missing file, more clearly than safetensors does.
    path.stat()

    def open_file():
        return safetensors.safe_open(str(path), framework="np")

    def read(name):
        # Opened again: the pages of a file that stays mapped fill the memory.
        with open_file() as file:
            return file.get_tensor(name)

    with open_file() as file:
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
            shape, _, _ = _HEADER_READERS[version](stream)
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
                f"{name!r} is not a .safetensors or .bin file in its folder"
            )
        arrays |= _open_arrays(path.with_name(name))
    missing = files.keys() - arrays.keys()
    if missing:
        raise ValueError(f"its files have no array {min(missing)}")
    return arrays


# By suffix of the file's name.
_OPENERS = {
    ".safetensors": _open_safetensors,
    ".npz": _open_npz,
    ".bin": open_torch_file,
    ".json": _open_shards,
}
