"""TensorFlow's C library, as TensorFlow Serving has it: no Python in it.

Importing this loads neither tensorflow nor keras; `load_runtime` maps the
shared libraries that the two packages tensorflow and tensorflow-text bring.
"""

import ctypes
import enum
import functools
import importlib.util
import os
import pathlib
import sys

_POINTER = ctypes.c_void_p
_POINTERS = ctypes.POINTER(_POINTER)


class Endpoint(ctypes.Structure):
    """TF_Output: one output of an operation in a graph."""

    _fields_ = [("operation", _POINTER), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    """TF_Buffer: bytes and who frees them."""

    _fields_ = [
        ("data", _POINTER),
        ("length", ctypes.c_size_t),
        ("deallocator", _POINTER),
    ]


_BUFFER = ctypes.POINTER(Buffer)
_ENDPOINTS = ctypes.POINTER(Endpoint)
_SIZES = ctypes.POINTER(ctypes.c_int64)
_TEXTS = ctypes.POINTER(ctypes.c_char_p)

# Name: result, then arguments, as in tensorflow/c/c_api.h and its kin.
_FUNCTIONS = {
    "TF_NewStatus": [_POINTER],
    "TF_DeleteStatus": [None, _POINTER],
    "TF_GetCode": [ctypes.c_int, _POINTER],
    "TF_Message": [ctypes.c_char_p, _POINTER],
    "TF_LoadLibrary": [_POINTER, ctypes.c_char_p, _POINTER],
    "TF_DeleteLibraryHandle": [None, _POINTER],
    "TF_NewBuffer": [_BUFFER],
    "TF_DeleteBuffer": [None, _BUFFER],
    "TF_NewGraph": [_POINTER],
    "TF_DeleteGraph": [None, _POINTER],
    "TF_GraphOperationByName": [_POINTER, _POINTER, ctypes.c_char_p],
    "TF_NewSessionOptions": [_POINTER],
    "TF_DeleteSessionOptions": [None, _POINTER],
    "TF_LoadSessionFromSavedModel": [
        *(_POINTER, _POINTER, _POINTER, ctypes.c_char_p, _TEXTS, ctypes.c_int),
        *(_POINTER, _BUFFER, _POINTER),
    ],
    "TF_CloseSession": [None, _POINTER, _POINTER],
    "TF_DeleteSession": [None, _POINTER, _POINTER],
    "TF_SessionRun": [
        *(None, _POINTER, _POINTER),
        *(_ENDPOINTS, _POINTERS, ctypes.c_int),
        *(_ENDPOINTS, _POINTERS, ctypes.c_int),
        *(_POINTERS, ctypes.c_int, _POINTER, _POINTER),
    ],
    "TF_AllocateTensor": [
        *(_POINTER, ctypes.c_int, _SIZES, ctypes.c_int, ctypes.c_size_t),
    ],
    "TF_DeleteTensor": [None, _POINTER],
    "TF_TensorType": [ctypes.c_int, _POINTER],
    "TF_NumDims": [ctypes.c_int, _POINTER],
    "TF_Dim": [ctypes.c_int64, _POINTER, ctypes.c_int],
    "TF_TensorData": [_POINTER, _POINTER],
    "TF_StringInit": [None, _POINTER],
    "TF_StringCopy": [None, _POINTER, ctypes.c_char_p, ctypes.c_size_t],
    "TF_StringGetDataPointer": [_POINTER, _POINTER],
    "TF_StringGetSize": [ctypes.c_size_t, _POINTER],
}


class ErrorCode(enum.IntEnum):
    """TF_Code: the canonical codes, the same ones that gRPC uses."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class ServerError(Exception):
    """The runtime refused, as it would refuse inside a server.

    Attributes:
        code: ErrorCode.
        message: the runtime's own.
    """

    def __init__(self, code, message):
        super().__init__(code, message)
        self.code = ErrorCode(code)
        self.message = message

    def __str__(self):
        return f"{self.code.name}: {self.message}"


class Runtime:
    """The functions of the C library, each under its own name.

    A call that takes a status goes through `checked`.

    Args:
        library: ctypes.CDLL that holds them.
    """

    def __init__(self, library):
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def checked(self, name, *arguments):
        """Calls a function whose last argument is a status.

        Args:
            name: of the function.
            *arguments: all but the status.

        Returns:
            What it returned.

        Raises:
            ServerError: the status was not OK.
        """
        status = self.TF_NewStatus()
        try:
            result = getattr(self, name)(*arguments, status)
            code = self.TF_GetCode(status)
            if code:
                message = self.TF_Message(status).decode("utf-8", "replace")
                raise ServerError(code, message)
            return result
        finally:
            self.TF_DeleteStatus(status)


@functools.cache
def load_runtime():
    """Returns the Runtime, with the operations of tensorflow-text in it.

    XLA is off in the whole process from here on, as in a stock server.

    Raises:
        RuntimeError: Python's TensorFlow is in this process, whose own
            kernels and whose XLA would make this something else than a
            server.
        ServerError: an operation library does not load.
    """
    if "tensorflow" in sys.modules:
        raise RuntimeError(
            "This process has imported tensorflow and is no longer like a "
            "server; use a ServerSession in a process of its own."
        )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = _package("tensorflow")
    _load(folder, "libtensorflow_framework")
    library = _load(folder, "libtensorflow_cc")
    # void tensorflow::DisableXlaCompilation(): the C API has no name for it.
    library._ZN10tensorflow21DisableXlaCompilationEv()
    runtime = Runtime(library)
    for path in sorted(_package("tensorflow_text").glob("python/ops/_*.so")):
        handle = runtime.checked("TF_LoadLibrary", os.fsencode(path))
        runtime.TF_DeleteLibraryHandle(handle)
    return runtime


def _package(name):
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"The package {name} is not installed.")
    return pathlib.Path(spec.submodule_search_locations[0])


def _load(folder, name):
    found = [*folder.glob(f"{name}.so*"), *folder.glob(f"{name}.*dylib")]
    if not found:
        raise RuntimeError(f"There is no {name} in {folder}.")
    return ctypes.CDLL(str(min(found)), mode=ctypes.RTLD_GLOBAL)
