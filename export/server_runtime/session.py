"""A SavedModel, loaded and run as TensorFlow Serving does it."""

import contextlib
import ctypes
import os
import pathlib
import tempfile
import threading
import weakref

from export.server_runtime.library import (
    Endpoint,
    ErrorCode,
    ServerError,
    load_runtime,
)
from export.server_runtime.saved_model import read_signatures
from export.server_runtime.tensors import as_array, tensor_of, to_array

__all__ = ["ErrorCode", "ServerError", "ServerSession"]


class ServerSession:
    """A SavedModel in TensorFlow's C++ runtime, without Python's TensorFlow.

    The same loader, kernels and operation libraries as in a stock server,
    and no XLA, so what cannot be served fails here too. It lives in a
    process that has not imported tensorflow, and imports neither it nor
    keras. Any number of threads may call `run` at once.

    Args:
        path: the version's folder, with saved_model.pb in it.

    Raises:
        ServerError: it does not load.
        RuntimeError: this process has imported tensorflow.

    Example:
        >>> with ServerSession("exports/demo/1") as session:
        ...     session.run("serving_default", {"text": ["Hello."]})
        {'score': array([-0.21], dtype=float32),
         'translation': array([b'Bonjour.'], dtype=object)}
    """

    def __init__(self, path):
        self._runtime = load_runtime()
        self._graph, self._session, meta_graph = _load(self._runtime, path)
        self._free = weakref.finalize(
            self, _free, self._runtime, self._graph, self._session
        )
        # At the end of the process the runtime may be gone already.
        self._free.atexit = False
        self._signatures = read_signatures(meta_graph)
        self._change = threading.Condition()
        self._running = 0
        self._closed = False

    def signatures(self):
        """Returns a dict, name to Signature: (inputs, outputs).

        Both are dicts, name to TensorInfo: (tensor, dtype, shape).
        """
        return dict(self._signatures)

    def run(self, signature, inputs):
        """Answers one request.

        Args:
            signature: name of the signature.
            inputs: dict, name to array or (nested) list; text as bytes or
                str. Types: string, int32, int64, float32, bool; any rank.

        Returns:
            dict, output's name to array; text as objects of bytes.

        Raises:
            ServerError: the runtime's error. Also, with the codes of the
                server: FAILED_PRECONDITION, there is no such signature;
                INVALID_ARGUMENT, inputs are missing, unknown or of another
                type.
            ValueError: the session is closed.
        """
        definition = self._find(signature)
        _check_names(definition, inputs)
        arrays = [
            as_array(inputs[name], info.dtype)
            for name, info in definition.inputs.items()
        ]
        with self._in_use(), contextlib.ExitStack() as stack:
            tensors = [
                stack.enter_context(tensor_of(self._runtime, array))
                for array in arrays
            ]
            return self._run(definition, tensors)

    def close(self):
        """Frees the model, once the calls that are running have ended."""
        with self._change:
            self._closed = True
            self._change.wait_for(lambda: self._running == 0)
        self._free()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @contextlib.contextmanager
    def _in_use(self):
        with self._change:
            if self._closed:
                raise ValueError("This session is closed.")
            self._running += 1
        try:
            yield
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    def _find(self, signature):
        if signature not in self._signatures:
            raise ServerError(
                ErrorCode.FAILED_PRECONDITION,
                f'Serving signature key "{signature}" not found; there are: '
                f"{', '.join(self._signatures)}.",
            )
        return self._signatures[signature]

    def _run(self, definition, tensors):
        runtime = self._runtime
        sources = self._endpoints(definition.inputs)
        results = self._endpoints(definition.outputs)
        answers = (ctypes.c_void_p * len(results))()
        try:
            runtime.checked(
                "TF_SessionRun",
                *(self._session, None),
                *(sources, (ctypes.c_void_p * len(tensors))(*tensors)),
                *(len(tensors), results, answers, len(answers)),
                *(None, 0, None),
            )
            return {
                name: to_array(runtime, tensor)
                for name, tensor in zip(definition.outputs, answers)
            }
        finally:
            for tensor in filter(None, answers):
                runtime.TF_DeleteTensor(tensor)

    def _endpoints(self, infos):
        found = [self._endpoint(info.tensor) for info in infos.values()]
        return (Endpoint * len(found))(*found)

    def _endpoint(self, tensor):
        name, _, index = tensor.partition(":")
        operation = self._runtime.TF_GraphOperationByName(
            self._graph, name.encode()
        )
        if operation is None:
            raise ServerError(
                ErrorCode.NOT_FOUND, f"The graph has no tensor {tensor!r}."
            )
        return Endpoint(operation, int(index or 0))


def _check_names(definition, inputs):
    extra = sorted(inputs.keys() - definition.inputs.keys())
    missing = sorted(definition.inputs.keys() - inputs.keys())
    if extra or missing:
        raise ServerError(
            ErrorCode.INVALID_ARGUMENT,
            "Request inputs do not match required inputs. Sent extra: "
            f"{{{', '.join(extra)}}}. Missing but required: "
            f"{{{', '.join(missing)}}}.",
        )


@contextlib.contextmanager
def _without_wildcards(path):
    """Gives a path that TensorFlow, which looks for a pattern, finds."""
    if not set(str(path)) & set("*?[]\\"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "version")
        link.symlink_to(pathlib.Path(path).resolve())
        yield link


def _load(runtime, path):
    """Returns graph, session and the bytes of the MetaGraphDef."""
    graph = runtime.TF_NewGraph()
    options = runtime.TF_NewSessionOptions()
    meta_graph = runtime.TF_NewBuffer()
    tags = (ctypes.c_char_p * 1)(b"serve")
    try:
        with _without_wildcards(path) as plain:
            session = runtime.checked(
                "TF_LoadSessionFromSavedModel",
                *(options, None, os.fsencode(plain)),
                *(tags, 1, graph, meta_graph),
            )
        content = meta_graph.contents
        return graph, session, ctypes.string_at(content.data, content.length)
    except ServerError:
        runtime.TF_DeleteGraph(graph)
        raise
    finally:
        runtime.TF_DeleteBuffer(meta_graph)
        runtime.TF_DeleteSessionOptions(options)


def _free(runtime, graph, session):
    try:
        runtime.checked("TF_CloseSession", session)
    finally:
        runtime.checked("TF_DeleteSession", session)
        runtime.TF_DeleteGraph(graph)
