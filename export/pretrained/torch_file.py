"""Reads the tensors of a file of `torch.save`, without PyTorch.

The file contains a pickle, which names tensors, and storages of plain numbers.
A pickle is a program, so this reader resolves only an allow-list of names, all
of which only describe tensors. Files of PyTorch 1.6 and later are zip archives;
older ones are several pickles in a row, followed by the storages.
"""

import functools
import io
import math
import pickle
import pickletools
import typing
import zipfile

import numpy as np

_DTYPES = {
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
# Beginning of a file before PyTorch 1.6, and the bytes of a count in it.
_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_COUNT_BYTES = 8
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
    dtype: str
    size: int

    @property
    def num_bytes(self):
        return self.size * np.dtype(self.dtype).itemsize


class _Tensor(typing.NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


class LazyArray(typing.NamedTuple):
    """The declared shape of an array, and a function that reads it."""

    shape: tuple
    read: typing.Callable[[], np.ndarray]


def open_torch_file(path):
    """Returns the tensors of a `pytorch_model.bin`: dict, name to LazyArray.

    Raises:
        OSError: there is no such file.
        ValueError: the file is damaged, or contains anything but tensors of
            numbers.
    """
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    storages = (_ZipStorages if is_zip else _LegacyStorages)(path)
    if not isinstance(storages.content, dict):
        raise ValueError("it holds no dictionary of tensors")
    return {
        name: LazyArray(
            tensor.shape, functools.partial(_read_tensor, storages, tensor)
        )
        for name, tensor in storages.content.items()
        if isinstance(name, str) and isinstance(tensor, _Tensor)
    }


def _read_tensor(storages, tensor):
    storage, offset, shape, strides = tensor
    if strides != tuple(
        math.prod(shape[axis + 1 :]) for axis in range(len(shape))
    ):
        raise ValueError("it is not stored row by row")
    content, dtype = storages.read(storage), np.dtype(storage.dtype)
    count = math.prod(shape)
    if (offset + count) * dtype.itemsize > len(content):
        raise ValueError("its storage is shorter than its shape")
    flat = np.frombuffer(content, dtype, count, offset * dtype.itemsize)
    return flat.reshape(shape)


class _ZipStorages:
    """The pickle and the storages of a zip archive."""

    def __init__(self, path):
        self._zip = zipfile.ZipFile(path)
        pickles = [
            name
            for name in self._zip.namelist()
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if len(pickles) != 1:
            raise ValueError("it holds no data.pkl")
        self._folder = pickles[0].partition("/")[0]
        if self._zip.getinfo(pickles[0]).file_size > _MAX_PICKLE_BYTES:
            raise ValueError("its data.pkl is too large to be a list of names")
        self.content = _unpickle(io.BytesIO(self._zip.read(pickles[0])), {})

    def read(self, storage):
        entry = self._zip.getinfo(f"{self._folder}/data/{storage.key}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its storage is compressed")
        return self._zip.read(entry)


class _LegacyStorages:
    """The pickles and the storages of a file before PyTorch 1.6.

    The pickles are a magic number, the version, the sizes of the machine's
    types, the tensors and the keys of the storages. Each storage is the number
    of its elements in 8 bytes, then the elements.
    """

    def __init__(self, path):
        self._path, storages = path, {}
        with path.open("rb") as file:
            stream = io.BytesIO(file.read(_MAX_PICKLE_BYTES))
        magic, version, machine, self.content, keys = (
            _unpickle(stream, storages) for _ in range(5)
        )
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError("it is not a file of torch.save")
        is_dict = isinstance(machine, dict)
        if not is_dict or machine.get("little_endian") is not True:
            raise ValueError("torch.save has written it on another machine")
        if set(keys) != storages.keys():
            raise ValueError("it lists other storages than its tensors have")
        self._offsets, offset = {}, stream.tell()
        for key in keys:
            self._offsets[key] = offset
            offset += _COUNT_BYTES + storages[key].num_bytes

    def read(self, storage):
        with self._path.open("rb") as file:
            file.seek(self._offsets[storage.key])
            count = int.from_bytes(file.read(_COUNT_BYTES), "little")
            if count != storage.size:
                raise ValueError("its storage has another size")
            remaining = self._path.stat().st_size - file.tell()
            return file.read(min(storage.num_bytes, remaining))


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
} | {("torch", name): dtype for name, dtype in _DTYPES.items()}


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
        if kind != "storage" or dtype not in _DTYPES.values() or any(view):
            raise ValueError("a part of a storage")
        # The key becomes part of a path in the archive.
        if not (isinstance(key, str) and key.isdigit()):
            raise ValueError("a storage without a number")
        if type(size) is not int or size < 0:
            raise ValueError("a storage without a size")
        self._storages[key] = _Storage(key, dtype, size)
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
