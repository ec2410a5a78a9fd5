"""Loads and runs a SavedModel as TensorFlow Serving does.

It uses TensorFlow's session loader, feeds and fetches, without eager execution,
Keras, or the rest of this package.
"""

import contextlib
import importlib.util
import os
import pathlib
import tempfile

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
    """A SavedModel in a session; thread-safe.

    `path` is the folder of the version, `signatures` a dict of names to
    SignatureDef. Raises one of SERVER_ERRORS if it cannot be loaded.

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

        Takes a dict of names to arrays or nested lists, with text as bytes or
        str, and returns one of names to arrays, with text as bytes. Raises
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

    def close(self):
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
def _without_wildcards(path):
    # TensorFlow expands patterns in paths.
    if not set(str(path)) & set("*?[]\\"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "version")
        link.symlink_to(pathlib.Path(path).resolve())
        yield link


def read_meta_graph(version):
    """Returns the MetaGraphDef of an exported version, without running it.

    Raises OSError or ValueError if it is missing or damaged.
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
    """Returns a MetaGraphDef's signatures, a dict sorted by name."""
    return {
        name: signature
        for name, signature in sorted(meta_graph.signature_def.items())
        if not name.startswith(_INTERNAL)
    }


def unsupported_operations(meta_graph):
    """Returns the sorted names of operations that a stock server cannot run.

    "_XlaMustCompile" among them stands for a function that XLA must compile.
    """
    library = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    for function in library:
        nodes += function.node_def
    names = {node.op for node in nodes if node.op.startswith(_FOREIGN)}
    for each in (*nodes, *library):
        if _COMPILED in each.attr and each.attr[_COMPILED].b:
            names.add(_COMPILED)
    return sorted(names)
