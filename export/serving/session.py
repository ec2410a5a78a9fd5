"""Loads and runs a SavedModel as TensorFlow Serving does.

It uses TensorFlow's session loader, feeds and fetches, without eager execution,
Keras, or the rest of this package.
"""

import contextlib
import importlib.util
import os
import pathlib
import tempfile
import typing
from collections.abc import Mapping

import numpy as np
from google.protobuf.message import DecodeError

# Otherwise TensorFlow would import Keras, which a server does not have.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

# Later uses of tf.keras need Keras 3.
del os.environ["TF_USE_LEGACY_KERAS"]

# Sessions are deprecated.
tf.get_logger().setLevel("ERROR")

SERVER_ERRORS = (OSError, ValueError, tf.errors.OpError)

# TensorFlow stores its initialization among the signatures.
_INTERNAL_PREFIX = "__saved_model_"
# Prefixes of operations that need Python, XLA or the kernels of a GPU, access
# files, grow in the server's process, or are newer than TensorFlow Serving 2.8.
_UNSUPPORTED_PREFIXES = (
    *("PyFunc", "EagerPyFunc", "Xla", "Numpy", "Hash", "Lookup", "Mutable"),
    *("Cudnn", "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader"),
    *("TextLine", "TFRecord", "FixedLengthRecord", "CreateSummary", "Print"),
    *("Debug", "RoundRobinTrim", "Utf8Binarize"),
)
_MUST_COMPILE = "_XlaMustCompile"


class ServerSession:
    """A SavedModel in a session; thread-safe.

    `path` is the folder of the version, `signatures` a dict of names to
    SignatureDef. Raises one of SERVER_ERRORS if it cannot be loaded.

    Examples:
        >>> with ServerSession("exports/demo/1") as session:
        ...     session.run("serving_default", {"text": ["Hello."]})
        {'score': array([-0.21], dtype=float32),
         'translation': array([b'Bonjour.'], dtype=object)}
    """

    def __init__(self, path: str | os.PathLike):
        _load_text_operations()
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with (
            _path_without_wildcards(path) as plain_path,
            self._session.graph.as_default(),
        ):
            meta_graph = tf.compat.v1.saved_model.load(
                self._session, ["serve"], str(plain_path)
            )
        self.signatures = read_signatures(meta_graph)

    def run(
        self, signature: str, inputs: Mapping[str, typing.Any]
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Takes a dict of names to arrays or nested lists, with text as bytes or
        str, and returns a dict of names to arrays, with text as bytes. Raises
        ValueError if the signature or an input is unknown or missing, and
        tf.errors.OpError if the graph fails.
        """
        if signature not in self.signatures:
            raise ValueError(
                f"Expected one of the signatures {', '.join(self.signatures)}, "
                f"got {signature}."
            )
        definition = self.signatures[signature]
        if inputs.keys() != set(definition.inputs):
            raise ValueError(
                f"Expected the inputs {', '.join(sorted(definition.inputs))}, "
                f"got {', '.join(sorted(inputs)) or 'none'}."
            )
        fetches = {name: each.name for name, each in definition.outputs.items()}
        feeds = {
            definition.inputs[name].name: value
            for name, value in inputs.items()
        }
        return self._session.run(fetches, feeds)

    def close(self) -> None:
        """Frees the model; requests in progress are cancelled."""
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _load_text_operations():
    # The Python of tensorflow-text would import Keras.
    spec = importlib.util.find_spec("tensorflow_text")
    for folder in spec.submodule_search_locations if spec else ():
        tf.load_library(str(pathlib.Path(folder, "python", "ops")))


@contextlib.contextmanager
def _path_without_wildcards(path):
    # TensorFlow expands patterns in paths.
    if not set(str(path)) & set("*?[]\\"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "version")
        link.symlink_to(pathlib.Path(path).resolve())
        yield link


def read_meta_graph(version: pathlib.Path) -> typing.Any:
    """Returns the MetaGraphDef of an exported version, without running it.

    Raises OSError or ValueError if it is missing or damaged.
    """
    content = (version / "saved_model.pb").read_bytes()
    try:
        saved_model = saved_model_pb2.SavedModel.FromString(content)
        (meta_graph,) = saved_model.meta_graphs
    except (DecodeError, ValueError) as error:
        raise ValueError(f"not a SavedModel, {error}") from error
    return meta_graph


def read_signatures(meta_graph: typing.Any) -> dict[str, typing.Any]:
    """Returns a MetaGraphDef's signatures, sorted by name."""
    return {
        name: signature
        for name, signature in sorted(meta_graph.signature_def.items())
        if not name.startswith(_INTERNAL_PREFIX)
    }


def unsupported_operations(meta_graph: typing.Any) -> list[str]:
    """Returns the sorted names of operations that a stock server cannot run.

    They include "_XlaMustCompile" if XLA must compile a function.
    """
    functions = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    for function in functions:
        nodes += function.node_def
    operations = {node.op for node in nodes}
    unsupported = {
        name for name in operations if name.startswith(_UNSUPPORTED_PREFIXES)
    }
    for each in (*nodes, *functions):
        if _MUST_COMPILE in each.attr and each.attr[_MUST_COMPILE].b:
            unsupported.add(_MUST_COMPILE)
    return sorted(unsupported)
