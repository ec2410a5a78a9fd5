"""One file for the vocabularies of two sides.

A model directory has one file of vocabulary, and so have prepared data. The
SentencePiece model of targets goes into that of sources, as a field of the
range that the format leaves to others. Nothing here loads TensorFlow.
"""

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from sentencepiece import sentencepiece_model_pb2

# The field of a ModelProto that holds the target's.
_TARGET_FIELD = 200
_BYTES = 2  # wire type


def joined(source, target):
    """Returns the bytes of a vocabulary of two sides.

    Args:
        source: bytes of the source's SentencePiece model.
        target: bytes of the target's.
    """
    tag = _TARGET_FIELD << 3 | _BYTES
    return source + _varint(tag) + _varint(len(target)) + target


def sides_of(vocabulary):
    """Returns the SentencePiece models of a vocabulary.

    Args:
        vocabulary: bytes, of `joined` or of an ordinary SentencePiece model.

    Returns:
        bytes of the source's and of the target's; of an ordinary one a pair
        of the same.

    Raises:
        ValueError: the bytes are no SentencePiece model.
    """
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(vocabulary)
    except DecodeError as error:
        raise ValueError("This is not a SentencePiece model.") from error
    for field in UnknownFieldSet(model):
        if (field.field_number, field.wire_type) == (_TARGET_FIELD, _BYTES):
            model.DiscardUnknownFields()
            return model.SerializeToString(deterministic=True), field.data
    return vocabulary, vocabulary


def listed_pieces(proto):
    """Returns V of a SentencePiece model of `vocabulary_of`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return model.trainer_spec.vocab_size


def _varint(number):
    found = []
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
