"""One file for the vocabularies of two sides.

A model directory has one file of vocabulary, and so have prepared data. The
SentencePiece model of targets goes into that of sources, as a field of the
range that the format leaves to others; another such field of sources' names
what is done to them before they are cut, as `export.tokenizers.opus_text`.
Nothing here loads TensorFlow.
"""

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from sentencepiece import sentencepiece_model_pb2

# The fields of a ModelProto that hold the target's, and how text is read.
_TARGET_FIELD, _TEXT_RULES_FIELD = 200, 201
_BYTES = 2  # wire type


def join_sides(source, target):
    """Returns the bytes of a vocabulary of two sides.

    Args:
        source: bytes of the source's SentencePiece model.
        target: bytes of the target's.
    """
    return source + _field(_TARGET_FIELD, target)


def split_sides(vocabulary):
    """Returns the SentencePiece models of a vocabulary.

    Args:
        vocabulary: bytes, of `join_sides` or an ordinary SentencePiece model.

    Returns:
        bytes of the source's and of the target's; of an ordinary one a pair
        of the same.

    Raises:
        ValueError: the bytes are no SentencePiece model.
    """
    model, fields = _parsed(vocabulary)
    if _TARGET_FIELD not in fields:
        return vocabulary, vocabulary
    model.DiscardUnknownFields()
    source = model.SerializeToString(deterministic=True)
    if _TEXT_RULES_FIELD in fields:
        source += _field(_TEXT_RULES_FIELD, fields[_TEXT_RULES_FIELD])
    return source, fields[_TARGET_FIELD]


def add_text_rules(source, name):
    """Returns the bytes of a source's model that names what is done first.

    Args:
        source: bytes of a SentencePiece model.
        name: of the rules, such as `opus_text.OPUS_TEXT`.
    """
    return source + _field(_TEXT_RULES_FIELD, name.encode("ascii"))


def read_text_rules(source):
    """Returns the name that `add_text_rules` gave; "" for none.

    Args:
        source: bytes of a SentencePiece model.

    Raises:
        ValueError: the bytes are no SentencePiece model.
    """
    _, fields = _parsed(source)
    return fields.get(_TEXT_RULES_FIELD, b"").decode("ascii", "replace")


def _parsed(vocabulary):
    """Returns a ModelProto, and a dict of the fields that it leaves to us."""
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


def count_listed_pieces(proto):
    """Returns V of a SentencePiece model of `vocabulary_of`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return model.trainer_spec.vocab_size


def _field(number, content):
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(number):
    found = []
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
