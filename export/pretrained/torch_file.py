"""What `torch.save` wrote, read without unpickling.

The file is a zip archive: one pickle says for each name which storage it is
in, where and with which shape; each storage is a file of plain numbers. Before
PyTorch 1.6 it was several pickles in a row, and the storages behind them. A
pickle is a program, and a hostile one does what it likes when it is run. So
it is not run: its instructions are read one by one (`pickletools.genops`
executes nothing), and only those that a dictionary of tensors is made of are
understood, in a few lines here. Whatever else stands there is an error.
"""

import collections
import io
import math
import pickletools
import typing
import zipfile

import numpy as np

_DTYPES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "DoubleStorage": "<f8",
    # No weights, but buffers that may stand beside them.
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
# A pickle that only names tensors is small.
_LARGEST_PICKLE = 64 * 2**20
_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT_BYTES = 8


class _Global(typing.NamedTuple):
    """A name that the pickle would import; here it stays a name."""

    module: str
    name: str


class _Storage(typing.NamedTuple):
    key: str
    dtype: str
    size: int

    @property
    def bytes(self):
        return self.size * np.dtype(self.dtype).itemsize


class _Tensor(typing.NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


_MARK = object()
_REBUILD = _Global("torch._utils", "_rebuild_tensor_v2")
_DICTS = (
    _Global("collections", "OrderedDict"),
    _Global("builtins", "dict"),
)
_PARAMETER = _Global("torch._utils", "_rebuild_parameter")


class TorchFile:
    """The tensors of a `pytorch_model.bin`.

    Args:
        path: pathlib.Path.

    Raises:
        OSError: there is no such file.
        ValueError: the file is none, or holds anything but tensors of
            numbers.
    """

    def __init__(self, path):
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        self._storages = (_ZipStorages if is_zip else _RowOfStorages)(path)
        found = self._storages.found
        if not isinstance(found, dict):
            raise ValueError("it holds no dictionary of tensors")
        self._tensors = {
            name: tensor
            for name, tensor in found.items()
            if isinstance(name, str) and isinstance(tensor, _Tensor)
        }

    def names(self):
        """Returns the tensors' names."""
        return self._tensors.keys()

    def shape(self, name):
        """Returns a tensor's shape, a tuple of int."""
        return self._tensors[name].shape

    def read(self, name):
        """Returns a tensor as a numpy array.

        Raises:
            KeyError: its storage is missing.
            ValueError: its storage is shorter than it says, or not as
                `torch.save` writes it.
        """
        tensor = self._tensors[name]
        dtype = np.dtype(tensor.storage.dtype)
        count = math.prod(tensor.shape)
        if tensor.strides != _contiguous(tensor.shape):
            raise ValueError("it is not stored row by row")
        content = self._storages.read(tensor.storage)
        last = (tensor.offset + count) * dtype.itemsize
        if tensor.offset < 0 or last > len(content):
            raise ValueError("its storage is shorter than its shape")
        flat = np.frombuffer(
            content, dtype, count, tensor.offset * dtype.itemsize
        )
        return flat.reshape(tensor.shape)


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
        if self._zip.getinfo(pickles[0]).file_size > _LARGEST_PICKLE:
            raise ValueError("its data.pkl is too large to be a list of names")
        self.found = _read_pickle(self._zip.read(pickles[0]))

    def read(self, storage):
        entry = self._zip.getinfo(f"{self._folder}/data/{storage.key}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its storage is compressed")
        return self._zip.read(entry)


class _RowOfStorages:
    """The pickles and the storages of a file before PyTorch 1.6.

    The pickles are a magic number, the version, the machine's sizes, the
    tensors and the keys of the storages. Of each storage there is the number
    of its elements in 8 bytes, and then these.
    """

    def __init__(self, path):
        self._path = path
        with path.open("rb") as file:
            pickles = io.BytesIO(file.read(_LARGEST_PICKLE))
        if _read_pickle(pickles) != _MAGIC:
            raise ValueError("it is no file of torch.save")
        version, machine = _read_pickle(pickles), _read_pickle(pickles)
        if version != 1001 or machine.get("little_endian") is not True:
            raise ValueError("torch.save has written it on another machine")
        storages = {}
        self.found = _read_pickle(pickles, storages)
        keys = _read_pickle(pickles)
        if keys is None or set(keys) != storages.keys():
            raise ValueError("it lists other storages than its tensors have")
        self._places, place = {}, pickles.tell()
        for key in keys:
            self._places[key] = place
            place += _COUNT_BYTES + storages[key].bytes

    def read(self, storage):
        with self._path.open("rb") as file:
            file.seek(self._places[storage.key])
            count = int.from_bytes(file.read(_COUNT_BYTES), "little")
            if count != storage.size:
                raise ValueError("its storage has another size")
            left = self._path.stat().st_size - file.tell()
            return file.read(min(storage.bytes, left))


def _contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _read_pickle(content, storages=None):
    """Returns what a pickle of names and tensors says, without running it."""
    stack, memo = [], {}
    for code, argument, _ in pickletools.genops(content):
        try:
            if code.name == "STOP":
                return stack.pop()
            _step(code.name, argument, stack, memo)
            if storages is not None and code.name == "BINPERSID":
                storages[stack[-1].key] = stack[-1]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"its data.pkl is more than a dictionary of tensors ({error})"
            ) from error
    raise ValueError("its data.pkl has no end")


_CONSTANTS = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}
_LITERALS = (
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
)
_IGNORED = ("PROTO", "FRAME")
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _step(name, argument, stack, memo):
    """Does one instruction to the stack."""
    if name in _IGNORED:
        return
    if name in _CONSTANTS:
        stack.append(_CONSTANTS[name]())
    elif name in _LITERALS:
        stack.append(argument)
    elif name == "GLOBAL":
        stack.append(_Global(*argument.split(" ", 1)))
    elif name == "STACK_GLOBAL":
        names = _pop(stack, 2)
        stack.append(_Global(*names))
    elif name in ("BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif name in _TUPLES:
        stack.append(tuple(_pop(stack, _TUPLES[name])))
    elif name == "TUPLE":
        stack.append(tuple(_pop_mark(stack)))
    elif name == "BINPERSID":
        stack.append(_storage(stack.pop()))
    elif name == "REDUCE":
        function, arguments = _pop(stack, 2)
        stack.append(_called(function, arguments))
    elif name == "SETITEM":
        key, value = _pop(stack, 2)
        stack[-1][key] = value
    elif name == "SETITEMS":
        items = _pop_mark(stack)
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    elif name == "APPEND":
        item = stack.pop()
        stack[-1].append(item)
    elif name == "APPENDS":
        items = _pop_mark(stack)
        stack[-1].extend(items)
    elif name == "BUILD":
        # The attributes of the dictionary, such as its `_metadata`.
        stack.pop()
        if not isinstance(stack[-1], dict):
            raise ValueError("attributes of another object")
    else:
        raise ValueError(f"instruction {name}")


def _pop(stack, count):
    items = stack[-count:]
    if len(items) != count or _MARK in items:
        raise ValueError("an empty stack")
    del stack[-count:]
    return items


def _pop_mark(stack):
    place = len(stack) - 1 - stack[::-1].index(_MARK)
    items = stack[place + 1 :]
    del stack[place:]
    return items


def _called(function, arguments):
    if function in _DICTS and arguments == ():
        return collections.OrderedDict()
    if function == _PARAMETER:
        tensor, _, _ = arguments
        return _checked_tensor(tensor)
    if function != _REBUILD:
        raise ValueError(f"a call of {'.'.join(map(str, function))}")
    storage, offset, shape, strides = arguments[:4]
    return _checked_tensor(_Tensor(storage, offset, shape, strides))


def _checked_tensor(tensor):
    storage, offset, shape, strides = tensor
    whole = [offset, *shape, *strides]
    if not (
        isinstance(storage, _Storage)
        and all(type(each) is int and each >= 0 for each in whole)
        and len(shape) == len(strides)
    ):
        raise ValueError("a tensor of no shape")
    return tensor


def _storage(persistent):
    # Before PyTorch 1.6 there is a sixth, for a part of a storage.
    kind, of, key, _, size, *view = persistent
    if any(view) or type(size) is not int or size < 0:
        raise ValueError("a part of a storage")
    if kind != "storage" or of.module != "torch" or of.name not in _DTYPES:
        raise ValueError(f"storage of {getattr(of, 'name', of)}")
    # It becomes part of a path in the archive.
    if not (isinstance(key, str) and key.isdigit()):
        raise ValueError("a storage without a number")
    return _Storage(key, _DTYPES[of.name], size)
