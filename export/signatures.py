"""The signatures of a SavedModel, read without importing tensorflow."""

import typing

from export.messages import message_class
from export.runtime_tensors import type_name


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
_MESSAGES = {
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
    message = message_class(_MESSAGES, "MetaGraph").FromString(meta_graph)
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
