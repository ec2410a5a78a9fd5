"""Loads and runs a SavedModel as TensorFlow Serving does.

TensorFlow's session loader, feeds and fetches, as in a server: no eager
execution, no Keras, and nothing else of this package.
"""

import contextlib
import importlib.util
import os
import pathlib
import tempfile

from google.protobuf.message import DecodeError

# Else TensorFlow would import Keras, which a server lacks.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

# tf.keras, where it is used later, is Keras 3.
del os.environ["TF_USE_LEGACY_KERAS"]

# Or it would warn that a session, which is what a server has, is deprecated.
tf.get_logger().setLevel("ERROR")

SERVER_ERRORS = (OSError, ValueError, tf.errors.OpError)

# TensorFlow's own initialisation, which it stores among the signatures.
_INTERNAL = "__saved_model_"
# Operations that need Python, XLA or the kernels of a GPU, access files, grow
# in the server's process, or are newer than TensorFlow Serving 2.8.
_FOREIGN = (
    *("PyFunc", "EagerPyFunc", "Xla", "Numpy", "Hash", "Lookup", "Mutable"),
    *("Cudnn", "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader"),
    *("TextLine", "TFRecord", "FixedLengthRecord", "CreateSummary", "Print"),
    *("Debug", "RoundRobinTrim", "Utf8Binarize"),
)
_COMPILED = "_XlaMustCompile"


class ServerSession:
    """A SavedModel in a session of its own; any number of threads may use it.

    Attributes:
        signatures: dict, name to SignatureDef.

    Args:
        path: the version's folder, with saved_model.pb in it.

    Raises:
        OSError, tf.errors.OpError: it cannot be loaded.

    Example:
        >>> with ServerSession("exports/demo/1") as session:
        ...     session.run("serving_default", {"text": ["Hello."]})
        {'score': array([-0.21], dtype=float32),
         'translation': array([b'Bonjour.'], dtype=object)}
    """

    def __init__(self, path):
        _load_text_operations()
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        load = tf.compat.v1.saved_model.load
        with (
            _without_wildcards(path) as plain,
            self._session.graph.as_default(),
        ):
            meta_graph = load(self._session, ["serve"], str(plain))
        self.signatures = signatures_of(meta_graph)

    def run(self, signature, inputs):
        """Answers one request.

        Args:
            signature: name of the signature.
            inputs: dict, name to array or nested list; text as bytes or str.

        Returns:
            dict, output's name to array; text as objects of bytes.

        Raises:
            ValueError: no such signature, or other inputs than it has.
            tf.errors.OpError: of the runtime.
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

    def close(self):
        """Frees the model; requests in progress are cancelled."""
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _load_text_operations():
    """Loads those of tensorflow-text, whose Python would import Keras."""
    spec = importlib.util.find_spec("tensorflow_text")
    for folder in spec.submodule_search_locations if spec else ():
        tf.load_library(str(pathlib.Path(folder, "python", "ops")))


@contextlib.contextmanager
def _without_wildcards(path):
    """Yields a path that TensorFlow, which expands patterns, finds."""
    if not set(str(path)) & set("*?[]\\"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "version")
        link.symlink_to(pathlib.Path(path).resolve())
        yield link


def read_meta_graph(version):
    """Returns the MetaGraphDef of an exported version, which is not run.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        OSError, ValueError: there is none.
    """
    content = (version / "saved_model.pb").read_bytes()
    try:
        (meta_graph,) = saved_model_pb2.SavedModel.FromString(
            content
        ).meta_graphs
    except (DecodeError, ValueError) as error:
        raise ValueError(f"it is no SavedModel, {error}") from error
    return meta_graph


def signatures_of(meta_graph):
    """Returns a dict of a MetaGraphDef's signatures in order of their names."""
    return {
        name: signature
        for name, signature in sorted(meta_graph.signature_def.items())
        if not name.startswith(_INTERNAL)
    }


def foreign_operations(meta_graph):
    """Returns the sorted names of operations that a stock server cannot run.

    "_XlaMustCompile" in it stands for a part that only XLA may run.

    Args:
        meta_graph: MetaGraphDef.
    """
    library = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    for function in library:
        nodes += function.node_def
    names = {node.op for node in nodes if node.op.startswith(_FOREIGN)}
    if any(_is_compiled(each.attr) for each in (*nodes, *library)):
        names.add(_COMPILED)
    return sorted(names)


def _is_compiled(attributes):
    return _COMPILED in attributes and attributes[_COMPILED].b
