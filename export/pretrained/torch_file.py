"""Reads files of `torch.save` without executing their pickles.

Such a file consists of storages, which are plain numbers, and a pickle, which
describes tensors over them. A pickle is a program, so only an allow-list of
instructions and names is resolved, all of which only describe tensors. Files
of PyTorch 1.6 and later are zip archives; older ones are several pickles in a
row, followed by the storages.
"""

import functools
import io
import math
import pathlib
import pickle
import pickletools
import typing
import zipfile

# Registers the dtype bfloat16 with NumPy.
import ml_dtypes  # noqa: F401
import numpy as np

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
# Instructions that a dict of tensors needs, by pickletools' names.
_INSTRUCTIONS = (
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 "
    "BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS "
    "GLOBAL STACK_GLOBAL BINPERSID REDUCE BUILD BINPUT LONG_BINPUT MEMOIZE "
    "BINGET LONG_BINGET"
)


class LazyArray(typing.NamedTuple):
    """The declared shape of an array, and a function that reads it."""

    shape: tuple[int, ...]
    read: typing.Callable[[], np.ndarray]


def open_torch_file(path: pathlib.Path) -> dict[str, LazyArray]:
    """Returns a dict of LazyArrays by name; any exception for other files."""
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    content, read_storage = (_open_zip if is_zip else _open_legacy)(path)
    if not isinstance(content, dict):
        raise ValueError("it has no dictionary of tensors")
    arrays = {}
    for name, tensor in content.items():
        if isinstance(name, str) and isinstance(tensor, _Tensor):
            read = functools.partial(_read_tensor, tensor, read_storage)
            arrays[name] = LazyArray(tensor.shape, read)
    return arrays


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
    axes = range(len(shape))
    if strides != tuple(math.prod(shape[axis + 1 :]) for axis in axes):
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
    pickles = [n for n in archive.namelist() if n.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError("it has no data.pkl")
    if archive.getinfo(pickles[0]).file_size > _MAX_PICKLE_BYTES:
        raise ValueError("its data.pkl is too large to be a list of names")
    folder = pickles[0].removesuffix("/data.pkl")
    # PyTorch 2.1 and later say so.
    byte_order = f"{folder}/byteorder"
    is_stated = byte_order in archive.namelist()
    if is_stated and archive.read(byte_order) != b"little":
        raise ValueError("its numbers are not little-endian")

    def read_storage(storage):
        entry = archive.getinfo(f"{folder}/data/{storage.key}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its storage is compressed")
        return archive.read(entry)

    content = _unpickle(io.BytesIO(archive.read(pickles[0])), {})
    return content, read_storage


def _open_legacy(path):
    """Does the same as `_open_zip` for a file before PyTorch 1.6.

    Its pickles are a magic number, the version, the byte order and sizes of
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
        raise ValueError("torch.save has not written it as little-endian")
    if set(keys) != storages.keys():
        raise ValueError("its list of storages does not match its tensors")
    offsets, offset = {}, stream.tell()
    for key in keys:
        offsets[key] = offset
        offset += 8 + storages[key].size * storages[key].dtype.itemsize

    def read_storage(storage):
        with path.open("rb") as file:
            file.seek(offsets[storage.key])
            if int.from_bytes(file.read(8), "little") != storage.size:
                raise ValueError("its storage has another size")
            remaining = path.stat().st_size - file.tell()
            size = storage.size * storage.dtype.itemsize
            return file.read(min(size, remaining))

    return content, read_storage


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
        sizes = [tensor.offset, *tensor.shape, *tensor.strides]
        are_sizes = all(type(size) is int and size >= 0 for size in sizes)
        if not isinstance(first, _Storage) or not are_sizes:
            raise ValueError("a tensor without a shape")
        return tensor


class _Unpickler(pickle.Unpickler):
    """Resolves only an allow-list of names, and records the storages."""

    _ALLOWED_NAMES = {
        ("collections", "OrderedDict"): _StateDict,
        ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(),
        ("torch._utils", "_rebuild_parameter"): _Rebuild(),
        **{("torch", name): dtype for name, dtype in _TORCH_DTYPES.items()},
    }

    def __init__(self, stream, storages):
        super().__init__(stream)
        self._storages = storages

    def find_class(self, module, name):
        if (module, name) not in self._ALLOWED_NAMES:
            raise ValueError(f"it names {module}.{name}")
        return self._ALLOWED_NAMES[module, name]

    def persistent_load(self, pid):
        # Before PyTorch 1.6 a sixth item may select a part of a storage.
        type_name, dtype, key, _, size, *view = pid
        if type_name != "storage" or dtype not in _TORCH_DTYPES.values():
            raise ValueError("something other than a storage")
        # The key becomes part of a path in the archive.
        is_key = isinstance(key, str) and key.isdigit()
        if not is_key or type(size) is not int or size < 0 or any(view):
            raise ValueError("a storage without a key or a size")
        self._storages[key] = _Storage(key, np.dtype(dtype), size)
        return self._storages[key]


def _unpickle(stream, storages):
    """Returns the content of one pickle, and records its storages."""
    start, allowed = stream.tell(), _INSTRUCTIONS.split()
    try:
        for instruction, argument, _ in pickletools.genops(stream):
            if instruction.name not in allowed or (
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
