"""The file `vocabulary.model`: one SentencePiece model, or one per side.

The target's model is stored inside the source's, in a field of the range that
SentencePiece reserves for extensions. Another such field names a normalization
of sources. Nothing here imports TensorFlow.
"""

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from sentencepiece import sentencepiece_model_pb2

_TARGET_FIELD, _NORMALIZER_FIELD = 200, 201
_BYTES = 2  # wire type


def join_vocabularies(source, target):
    """Returns the bytes of a vocabulary of two SentencePiece models."""
    return source + _encode_field(_TARGET_FIELD, target)


def split_vocabulary(vocabulary):
    """Returns the SentencePiece models of source and target.

    A joint one is returned twice. Other bytes raise ValueError.
    """
    model, fields = _parse(vocabulary)
    if _TARGET_FIELD not in fields:
        return vocabulary, vocabulary
    model.DiscardUnknownFields()
    source = model.SerializeToString(deterministic=True)
    if _NORMALIZER_FIELD in fields:
        source += _encode_field(_NORMALIZER_FIELD, fields[_NORMALIZER_FIELD])
    return source, fields[_TARGET_FIELD]


def add_normalizer(source, name):
    """Returns a source's model with the name of its normalization."""
    return source + _encode_field(_NORMALIZER_FIELD, name.encode("ascii"))


def read_normalizer(source):
    """Returns the name that `add_normalizer` stored, or ""."""
    _, fields = _parse(source)
    return fields.get(_NORMALIZER_FIELD, b"").decode("ascii", "replace")


def count_table_pieces(proto):
    """Returns V of a SentencePiece model of `pretrained.vocabulary`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return model.trainer_spec.vocab_size


def has_crashing_piece(pieces):
    """Returns whether a token is empty or begins with NUL: a crash later."""
    return any(piece[:1] in ("", "\0") for piece in pieces)


def _parse(vocabulary):
    """Returns a ModelProto, and a dict of its unknown fields of bytes."""
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(vocabulary)
    except DecodeError as error:
        raise ValueError("This is not a SentencePiece model.") from error
    return model, {
        field.field_number: field.data
        for field in UnknownFieldSet(model)
        if field.wire_type == _BYTES
    }


def _encode_field(number, content):
    header = _encode_varint(number << 3 | _BYTES)
    return header + _encode_varint(len(content)) + content


def _encode_varint(number):
    encoded = []
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])
