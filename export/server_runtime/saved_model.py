"""What an exported version's files say, read without TensorFlow."""

import json
import pathlib
import typing

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

from export.errors import InputError
from export.server_runtime.tensors import type_name

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
}
# Any name does: each set of messages has a pool of its own.
_PACKAGE = "keras_transformer.export"


def message_class(messages, name):
    """Returns the class of a message.

    Only the fields that are named are read; all others are passed over. An
    enum is an int64 and a map is a list of messages of key and value, as they
    are on the wire.

    Args:
        messages: dict, name of a message to its fields: tuples of name,
            number and type, which is "string", "bytes", "int64", "bool",
            another message's name, or a list with one of these: repeated.
        name: of the message asked for.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="messages.proto", package=_PACKAGE, syntax="proto3"
    )
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for field, number, kind in fields:
            described.field.append(_field(field, number, kind))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    )


def _field(name, number, kind):
    field = _FIELD(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if isinstance(kind, list):
        field.label = _FIELD.LABEL_REPEATED
        (kind,) = kind
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    return field


class TensorInfo(typing.NamedTuple):
    """One input or output of a signature.

    Attributes:
        tensor: its name in the graph, such as "PartitionedCall:0".
        dtype: such as "string" or "int32".
        shape: tuple, None for a length that is open; None when even the
            rank is open.
    """

    tensor: str
    dtype: str
    shape: tuple | None


class Signature(typing.NamedTuple):
    """What goes into a signature and what comes out.

    Attributes:
        inputs: dict, name to TensorInfo.
        outputs: the same.
    """

    inputs: dict
    outputs: dict


# The part of tensorflow/core/protobuf/meta_graph.proto that is read here.
_SIGNATURE_MESSAGES = {
    "MetaGraph": [("signatures", 5, ["Entry"])],
    "Entry": [("key", 1, "string"), ("value", 2, "SignatureDef")],
    "SignatureDef": [("inputs", 1, ["Tensor"]), ("outputs", 2, ["Tensor"])],
    "Tensor": [("key", 1, "string"), ("value", 2, "TensorInfo")],
    "TensorInfo": [
        ("name", 1, "string"),
        ("dtype", 2, "int64"),
        ("shape", 3, "Shape"),
    ],
    "Shape": [("lengths", 2, ["Length"]), ("is_open", 3, "bool")],
    "Length": [("size", 1, "int64")],
}
# SavedModel keeps its own start-up operation among the signatures.
_INTERNAL = "__saved_model_"


def read_signatures(meta_graph):
    """Returns the signatures of a serialised MetaGraphDef.

    Args:
        meta_graph: bytes.

    Returns:
        dict, name to Signature, in the order of the names.
    """
    message = message_class(_SIGNATURE_MESSAGES, "MetaGraph").FromString(
        meta_graph
    )
    return {
        entry.key: Signature(
            _tensors(entry.value.inputs), _tensors(entry.value.outputs)
        )
        for entry in sorted(message.signatures, key=lambda entry: entry.key)
        if not entry.key.startswith(_INTERNAL)
    }


def _tensors(entries):
    return {
        entry.key: TensorInfo(
            entry.value.name,
            type_name(entry.value.dtype),
            _shape(entry.value.shape),
        )
        for entry in sorted(entries, key=lambda entry: entry.key)
    }


def _shape(shape):
    if shape.is_open:
        return None
    return tuple(
        None if length.size < 0 else length.size for length in shape.lengths
    )


# The parts of saved_model.proto, meta_graph.proto, graph.proto,
# function.proto, node_def.proto and attr_value.proto that are read here.
_GRAPH_MESSAGES = {
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
        saved = message_class(_GRAPH_MESSAGES, "SavedModel").FromString(
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


def is_version(name):
    """Returns whether TensorFlow Serving takes a folder's name for one."""
    return name.isascii() and name.isdecimal()


# Relative to the version's folder; TensorFlow Serving leaves it alone. Which
# of these an export has tells what its model was trained for.
DESCRIPTION_FILES = {
    "translation": pathlib.PurePath("assets.extra", "translator.json"),
    "parsing": pathlib.PurePath("assets.extra", "parser.json"),
}
_EVERY_LIMIT = {"beam_size", "alpha", "max_source_tokens"}
_LIMITS = {
    "translation": _EVERY_LIMIT | {"stop", "max_output_extra"},
    "parsing": _EVERY_LIMIT,
}


def task_of(version):
    """Returns "parsing" of a parser's export, else "translation".

    Args:
        version: pathlib.Path of the version's folder.
    """
    is_parser = (version / DESCRIPTION_FILES["parsing"]).exists()
    return "parsing" if is_parser else "translation"


def read_description(version):
    """Returns the content of an export's description, a dict.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: there is none, or it is not one.
    """
    task = task_of(version)
    path = version / DESCRIPTION_FILES[task]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        missing = _LIMITS[task].difference(content["limits"])
        if content["parameters"] < 1 or missing:
            lacks = ", ".join(sorted(missing)) or "parameters"
            raise ValueError(f"it does not say {lacks}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be used ({error}); export the model again with "
            "export.saved_model."
        ) from error
    return content


def exported_version(path):
    """Returns the folder of the export that a folder is or holds, or None.

    Args:
        path: pathlib.Path, of a folder or of nothing.

    Returns:
        pathlib.Path: of several versions the newest.

    Raises:
        InputError: the folder cannot be read.
    """
    if not is_folder(path):
        return None
    try:
        if (path / "saved_model.pb").exists():
            return path
        versions = [child for child in path.iterdir() if is_version(child.name)]
    except OSError as error:
        raise _unreadable(path, error) from error
    return max(versions, key=lambda child: int(child.name), default=None)


def is_folder(path):
    """Returns whether a path is a folder; an InputError if none can tell."""
    try:
        return path.is_dir()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path, error):
    return InputError(f"{path} cannot be read: {error.strerror}.")
