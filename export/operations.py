"""What a SavedModel's graph asks of the server that runs it."""

from export.errors import InputError
from export.messages import message_class

# The parts of saved_model.proto, meta_graph.proto, graph.proto,
# function.proto, node_def.proto and attr_value.proto that are read here.
_MESSAGES = {
    "SavedModel": [("meta_graphs", 2, ["MetaGraph"])],
    "MetaGraph": [("graph", 2, "Graph")],
    "Graph": [("nodes", 1, ["Node"]), ("library", 2, "Library")],
    "Library": [("functions", 1, ["Function"])],
    "Function": [
        ("signature", 1, "Named"),
        ("nodes", 3, ["Node"]),
        ("attributes", 5, ["Attribute"]),
    ],
    "Named": [("name", 1, "string")],
    "Node": [("operation", 2, "string"), ("attributes", 5, ["Attribute"])],
    "Attribute": [("key", 1, "string"), ("value", 2, "Value")],
    "Value": [("b", 5, "bool")],
}
# They need Python, XLA or a GPU's kernels alone, reach for files, grow in the
# server's process, or came after TensorFlow Serving 2.8.
_FOREIGN = (
    *("PyFunc", "EagerPyFunc", "Xla", "Numpy", "Hash", "Lookup", "Mutable"),
    *("Cudnn", "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader"),
    *("TextLine", "TFRecord", "FixedLengthRecord", "CreateSummary", "Print"),
    *("Debug", "RoundRobinTrim", "Utf8Binarize"),
)
_COMPILED = "_XlaMustCompile"


def foreign_operations(version):
    """Returns the names of operations that a stock server cannot run.

    Args:
        version: pathlib.Path of the version's folder.

    Returns:
        A sorted list; "_XlaMustCompile" in it stands for a part that only
        XLA may run. SaveV2 and RestoreV2, which every SavedModel has for its
        weights, are not among them.

    Raises:
        InputError: there is no SavedModel.
    """
    path = version / "saved_model.pb"
    try:
        saved = message_class(_MESSAGES, "SavedModel").FromString(
            path.read_bytes()
        )
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as a SavedModel ({error}); export the "
            "model again with export.saved_model."
        ) from error
    found = set()
    for graph in (meta_graph.graph for meta_graph in saved.meta_graphs):
        found |= _of_nodes(graph.nodes)
        for function in graph.library.functions:
            found |= _of_nodes(function.nodes) | _compiled(function)
    return sorted(found)


def _of_nodes(nodes):
    found = {n.operation for n in nodes if n.operation.startswith(_FOREIGN)}
    return found.union(*map(_compiled, nodes))


def _compiled(item):
    return {
        attribute.key
        for attribute in item.attributes
        if attribute.key == _COMPILED and attribute.value.b
    }
