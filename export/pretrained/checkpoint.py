"""Reads and validates the arrays of a checkpoint, without executing pickles.

A file of `torch.save` contains a pickle, which names tensors, and storages of
plain numbers. A pickle is a program, so only an allow-list of instructions and
names is resolved, all of which only describe tensors. Files of PyTorch 1.6 and
later are zip archives; older ones are several pickles in a row, followed by the
storages.
"""

import contextlib
import functools
import io
import json
import math
import pathlib
import pickle
import pickletools
import typing
import zipfile
import zlib

# Registers the dtype bfloat16 with NumPy.
import ml_dtypes  # noqa: F401
import numpy as np
import safetensors

from export.common.errors import InputError
from export.pretrained.config_files import wrong_value_error

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
    *(MemoryError, RuntimeError, AttributeError, zlib.error),
    *(zipfile.BadZipFile, safetensors.SafetensorError),
)


class _LazyArray(typing.NamedTuple):
    """The declared shape of an array, and a function that reads it."""

    shape: tuple
    read: typing.Callable[[], np.ndarray]


class WeightsFile:
    """Named arrays of a file, each read on demand.

    The file is `.safetensors`, `.bin` or `.npz`, or the `.index.json` of
    shards. `names` is the set of the names of all arrays. All methods raise
    InputError if the file or the array is missing, damaged or another.
    """

    def __init__(self, path):
        self.path = path
        with self._explain_damage(path):
            self._arrays = _OPENERS[path.suffix](path)
        self.names = {*self._arrays}

    def shape(self, name):
        """Returns the declared shape of an array."""
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name}.")
        return self._arrays[name].shape

    def check(self, name, shape):
        """Raises InputError if an array is missing or has another shape."""
        declared = self.shape(name)
        # Marian stores vectors as [1, n].
        if declared != shape and declared != (1, *shape):
            expected = f"the shape {list(shape)}"
            raise wrong_value_error(self.path, name, list(declared), expected)

    def read(self, name, shape):
        """Returns an array as float32."""
        # Before reading: a hostile file may declare any size.
        self.check(name, shape)
        array = self._read(name)
        kind = array.dtype.name
        if kind not in _DTYPES:
            raise wrong_value_error(self.path, name, kind, " or ".join(_DTYPES))
        with np.errstate(over="ignore"):
            array = np.asarray(array, np.float32)
        if not np.isfinite(array).all():
            wrong = float(array[~np.isfinite(array)][0])
            raise wrong_value_error(self.path, name, wrong, "finite numbers")
        return array.reshape(shape)

    def read_text(self, name):
        """Returns the bytes of a text stored as an array, without NUL."""
        shape = self.shape(name)
        if len(shape) != 1 or shape[0] > _MAX_TEXT_BYTES:
            expected = f"at most {_MAX_TEXT_BYTES:,} bytes of text"
            raise wrong_value_error(self.path, name, list(shape), expected)
        array = self._read(name)
        if array.dtype.name not in ("uint8", "int8"):
            raise wrong_value_error(self.path, name, array.dtype.name, "bytes")
        return array.tobytes().rstrip(b"\0")

    def validate_names(self, names):
        """Raises InputError if the checkpoint has arrays not in `names`."""
        unknown = sorted(self.names - names)
        if unknown:
            raise InputError(
                f"{self.path}: expected the arrays of the paper's Transformer, "
                f"got {len(unknown)} others, such as {unknown[0]}."
            )

    def _read(self, name):
        with self._explain_damage(f"{self.path}: {name}"):
            return self._arrays[name].read()

    @staticmethod
    @contextlib.contextmanager
    def _explain_damage(name):
        try:
            yield
        except _READ_ERRORS as error:
            lines = str(error).strip().splitlines() or ["it is damaged"]
            reason = getattr(error, "strerror", None) or lines[0].rstrip(".")
            raise InputError(f"{name} cannot be read: {reason}.") from error


def open_weights_file(folder, names):
    """Returns the WeightsFile of the first of `names` that a folder has.

    Each file may also be split into shards with an index. Raises InputError if
    none of the files exists, or the file is damaged.
    """
    for name in names:
        for path in (folder / name, folder / f"{name}.index.json"):
            if path.exists():
                return WeightsFile(path)
    raise InputError(
        f"{folder} has no {' or '.join(names)}, nor the index of their shards; "
        "save the model with MarianMTModel.save_pretrained."
    )


def _open_safetensors(path):
    # Raises for a missing file, more clearly than safetensors does.
    path.stat()
    file = safetensors.safe_open(str(path), framework="np")
    arrays = {}
    for name in file.keys():  # noqa: SIM118
        shape = tuple(file.get_slice(name).get_shape())
        read = functools.partial(file.get_tensor, name)
        arrays[name] = _LazyArray(shape, read)
    return arrays


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
        array = _LazyArray(shape, functools.partial(read, name))
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
        arrays |= WeightsFile(path.with_name(name))._arrays
    missing = files.keys() - arrays.keys()
    if missing:
        raise ValueError(f"its files have no array {min(missing)}")
    return arrays


def _open_torch_file(path):
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    content, read = (_open_zip if is_zip else _open_legacy)(path)
    if not isinstance(content, dict):
        raise ValueError("it holds no dictionary of tensors")
    return {
        name: _LazyArray(
            tensor.shape, functools.partial(_read_tensor, tensor, read)
        )
        for name, tensor in content.items()
        if isinstance(name, str) and isinstance(tensor, _Tensor)
    }


_OPENERS = {
    ".safetensors": _open_safetensors,
    ".npz": _open_npz,
    ".bin": _open_torch_file,
    ".json": _open_shards,
}
_TORCH_DTYPES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "DoubleStorage": "<f8",
    # Types of buffers, not weights.
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
# A pickle that only names tensors is small, and so is its memo. An Unpickler
# allocates a memo as long as the largest index used.
_MAX_PICKLE_BYTES, _MAX_MEMO = 2**26, 2**22
# Allowed instructions, by pickletools' names: those of a dict of tensors.
_INSTRUCTIONS = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("EMPTY_LIST", "APPEND", "APPENDS"),
    *("EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("GLOBAL", "STACK_GLOBAL", "BINPERSID", "REDUCE", "BUILD"),
    *("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
}


class _Storage(typing.NamedTuple):
    key: str
    dtype: np.dtype
    size: int


class _Tensor(typing.NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


def _read_tensor(tensor, read_storage):
    storage, offset, shape, strides = tensor
    if strides != tuple(
        math.prod(shape[axis + 1 :]) for axis in range(len(shape))
    ):
        raise ValueError("it is not stored row by row")
    content, dtype = read_storage(storage), storage.dtype
    count = math.prod(shape)
    if (offset + count) * dtype.itemsize > len(content):
        raise ValueError("its storage is shorter than its shape")
    flat = np.frombuffer(content, dtype, count, offset * dtype.itemsize)
    return flat.reshape(shape)


def _open_zip(path):
    """Returns the pickle's content, and a function that reads a storage."""
    archive = zipfile.ZipFile(path)
    names = [n for n in archive.namelist() if n.endswith("/data.pkl")]
    if len(names) != 1:
        raise ValueError("it holds no data.pkl")
    if archive.getinfo(names[0]).file_size > _MAX_PICKLE_BYTES:
        raise ValueError("its data.pkl is too large to be a list of names")

    def read(storage):
        folder = names[0].removesuffix("/data.pkl")
        entry = archive.getinfo(f"{folder}/data/{storage.key}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its storage is compressed")
        return archive.read(entry)

    return _unpickle(io.BytesIO(archive.read(names[0])), {}), read


def _open_legacy(path):
    """Returns the same as `_open_zip` of a file before PyTorch 1.6.

    Its pickles are a magic number, the version, the sizes of the machine's
    types, the tensors and the keys of the storages. Each storage is the number
    of its elements in 8 bytes, then the elements.
    """
    with path.open("rb") as file:
        stream = io.BytesIO(file.read(_MAX_PICKLE_BYTES))
    storages = {}
    magic, version, machine, content, keys = (
        _unpickle(stream, storages) for _ in range(5)
    )
    if (magic, version) != (0x1950A86A20F9469CFC6C, 1001):
        raise ValueError("it is not a file of torch.save")
    if not isinstance(machine, dict) or not machine.get("little_endian"):
        raise ValueError("torch.save has written it on another machine")
    if set(keys) != storages.keys():
        raise ValueError("it lists other storages than its tensors have")
    offsets, offset = {}, stream.tell()
    for key in keys:
        offsets[key] = offset
        offset += 8 + storages[key].size * storages[key].dtype.itemsize

    def read(storage):
        with path.open("rb") as file:
            file.seek(offsets[storage.key])
            if int.from_bytes(file.read(8), "little") != storage.size:
                raise ValueError("its storage has another size")
            remaining = path.stat().st_size - file.tell()
            size = storage.size * storage.dtype.itemsize
            return file.read(min(size, remaining))

    return content, read


class _StateDict(dict):
    """Replaces OrderedDict; attributes such as `_metadata` are dropped."""

    __slots__ = ()

    def __setstate__(self, state):
        pass


class _Rebuild:
    """Replaces the functions that build a tensor or a parameter.

    It has no attributes, so that no pickle can change it.
    """

    __slots__ = ()

    def __call__(self, first, *others):
        if isinstance(first, _Tensor):
            return first
        tensor = _Tensor(first, *others[:3])
        numbers = [tensor.offset, *tensor.shape, *tensor.strides]
        if not isinstance(first, _Storage) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise ValueError("a tensor without a shape")
        return tensor


_ALLOWED_NAMES = {
    ("collections", "OrderedDict"): _StateDict,
    ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(),
    ("torch._utils", "_rebuild_parameter"): _Rebuild(),
} | {("torch", name): dtype for name, dtype in _TORCH_DTYPES.items()}


class _Unpickler(pickle.Unpickler):
    """Resolves only an allow-list of names, and records the storages."""

    def __init__(self, stream, storages):
        super().__init__(stream)
        self._storages = storages

    def find_class(self, module, name):
        if (module, name) not in _ALLOWED_NAMES:
            raise ValueError(f"it names {module}.{name}")
        return _ALLOWED_NAMES[module, name]

    def persistent_load(self, pid):
        # Before PyTorch 1.6 a sixth item may select a part of a storage.
        kind, dtype, key, _, size, *view = pid
        if kind != "storage" or dtype not in _TORCH_DTYPES.values():
            raise ValueError("something other than a storage")
        # The key becomes part of a path in the archive.
        is_key = isinstance(key, str) and key.isdigit()
        if not is_key or type(size) is not int or size < 0 or any(view):
            raise ValueError("a storage without a number or a size")
        self._storages[key] = _Storage(key, np.dtype(dtype), size)
        return self._storages[key]


def _unpickle(stream, storages):
    """Returns the content of one pickle, and records its storages."""
    start = stream.tell()
    try:
        for instruction, argument, _ in pickletools.genops(stream):
            if instruction.name not in _INSTRUCTIONS or (
                instruction.name == "LONG_BINPUT" and argument > _MAX_MEMO
            ):
                raise ValueError(f"instruction {instruction.name}")
        stream.seek(start)
        return _Unpickler(stream, storages).load()
    # A damaged pickle may raise anything.
    except Exception as error:
        raise ValueError(
            f"its pickle is more than a dictionary of tensors ({error})"
        ) from error
