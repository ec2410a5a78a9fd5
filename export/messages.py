"""Protocol buffers that are read and written without their generated code."""

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

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
