"""Text to ids and back without TensorFlow, and the file `vocabulary.model`.

The file is one SentencePiece model, or one per side: the target's is stored in
the source's, in a field of the range that SentencePiece reserves for
extensions. Another such field has the name of a normalization of sources.
"""

import re
import typing
import unicodedata

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from sentencepiece import sentencepiece_model_pb2

# Unlike quotations in some languages, a tag has no space inside. Not \s, which
# differs between Python and RE2.
TAG = r"[\t\n\f\r ]*(>>[^<>\t\n\f\r ]+<<)"
# The normalization of OPUS-MT's scripts: full-width punctuation becomes ASCII,
# control and unassigned characters become spaces, and spaces are collapsed, as
# in the training text of its models. Hugging Face's tokenizer skips it.
OPUS_MT = "opus-mt"
# Regular expressions for both RE2 and Python, applied in order. Like Moses'
# script for the training text, it maps a full-width 1 to a quotation mark.
OPUS_PUNCTUATION = (
    ("[，、]", ","),
    ("。 *", ". "),
    ("[∶：]", ":"),
    ("[”“《》」「１]", '"'),
    *zip("０２３４５６７８９", "023456789"),
    ("． *", ". "),
    ("…", "..."),
    *zip("？）！（；～’━〈〉【】％", "?)!(;~'-<>[]%"),
)
# Perl's \p{C} without line feeds; RE2's excludes unassigned characters.
OPUS_CONTROL = r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\n]"
OPUS_SPACES = ((" +", " "), ("^ | $", ""))
# Fields of a protocol buffer, and the wire type of bytes.
_TARGET_FIELD, _NORMALIZER_FIELD = 200, 201
_BYTES = 2


class PythonTokenizer:
    """Text to ids and back by the SentencePiece model `proto`, bytes."""

    # Itself: a PythonTokenizerPair has one tokenizer for each side.
    source = target = property(lambda self: self)

    def __init__(self, proto):
        self.proto = proto
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=proto
        )
        self.vocabulary_size = len(self._processor)

    def tokens(self, text):
        """Returns the tokens of a text, list of str, without the end token."""
        return self._processor.id_to_piece(self.ids(text)[:-1])

    def ids(self, text):
        """Returns a list of int, with the end id."""
        text = text.replace("\0", "")
        return [*self._processor.encode(text), self._processor.eos_id()]

    def text(self, ids):
        """Returns the text of a list of int, without special ids.

        Bytes that are not UTF-8 become U+FFFD.
        """
        return self._processor.decode(ids)

    def id_to_token(self, token_id):
        """Returns the token of one id, such as "▁the"."""
        return self._processor.id_to_piece(token_id)

    def encode(self, texts):
        """Tokenizes a list of str to a list of int32 arrays with end ids."""
        return [np.array(self.ids(text), np.int32) for text in texts]

    def decode(self, ids):
        """Joins int32 [B, T] ids; returns a list of str."""
        return [self.text(row) for row in np.asarray(ids).tolist()]


class PythonVocabTokenizer(PythonTokenizer):
    """The VocabTokenizer of `pretrained_tokenizers` without TensorFlow.

    With `has_tags` a text may begin with a tag, as in TaggedTokenizer.
    `normalize` is a function from str to str, applied first.
    """

    def __init__(self, proto, has_tags=False, normalize=str):
        super().__init__(proto)
        self._is_text = text_piece_mask(proto)
        self.vocabulary_size = read_vocab_size(proto)
        self._has_tags = has_tags
        self._normalize = normalize

    def ids(self, text):
        """Returns a list of int with the end id; a leading tag is one id."""
        processor, unknown_id = self._processor, self._processor.unk_id()
        text, ids = self._normalize(text), []
        match = re.match(TAG, text) if self._has_tags else None
        if match:
            text, tag_id = text[match.end() :], processor.piece_to_id(match[1])
            ids.append(tag_id if tag_id < self.vocabulary_size else unknown_id)
        for piece in processor.encode(text, out_type=str):
            piece_id = processor.piece_to_id(piece)
            ids.append(piece_id if self._is_text[piece_id] else unknown_id)
        return [*ids, processor.eos_id()]


def text_piece_mask(proto):
    """Returns a list of bool: for each id whether text may contain it.

    False for ids of V and above, control tokens, and tags, which are allowed
    only at the beginning of a source.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return [
        index < model.trainer_spec.vocab_size
        and piece.type not in (piece.CONTROL, piece.UNKNOWN)
        and not re.fullmatch(TAG, piece.piece)
        for index, piece in enumerate(model.pieces)
    ]


class PythonTokenizerPair(typing.NamedTuple):
    """A tokenizer for each side."""

    source: PythonTokenizer
    target: PythonTokenizer


def load_python_tokenizer(vocabulary):
    """Returns the PythonTokenizer or PythonTokenizerPair of a vocabulary.

    Raises ValueError for bytes that are not a SentencePiece model.
    """
    source, target = load_python_tokenizers(vocabulary)
    return source if source is target else PythonTokenizerPair(source, target)


def load_python_tokenizers(vocabulary):
    """Returns the source and target PythonTokenizers of a vocabulary.

    Raises ValueError for bytes that are not a SentencePiece model.
    """
    source, target = split_vocabulary(vocabulary)
    if source is target:
        return (PythonTokenizer(vocabulary),) * 2
    return load_python_source_tokenizer(source), PythonVocabTokenizer(target)


def load_python_source_tokenizer(proto):
    """Returns the PythonTokenizer for sources of a pretrained model."""
    normalizer = read_normalizer(proto)
    if normalizer not in ("", OPUS_MT):
        raise ValueError(f"There is no normalization {normalizer!r}.")
    normalize = normalize_opus if normalizer else str
    return PythonVocabTokenizer(proto, has_tags=True, normalize=normalize)


def normalize_opus(text):
    """Normalizes a str as OPUS-MT's scripts do.

    RE2's results differ for characters that only one Unicode version has.
    """
    for pattern, replacement in OPUS_PUNCTUATION:
        text = re.sub(pattern, replacement, text)
    text = "".join(" " if _is_control(each) else each for each in text)
    for pattern, replacement in OPUS_SPACES:
        text = re.sub(pattern, replacement, text)
    return text


def _is_control(character):
    is_other = unicodedata.category(character).startswith("C")
    return is_other and character != "\n"


def join_vocabularies(source, target):
    """Joins two SentencePiece models to the bytes of a vocabulary."""
    return source + _encode_field(_TARGET_FIELD, target)


def split_vocabulary(vocabulary):
    """Returns the SentencePiece models of source and target.

    A joint vocabulary is returned twice. Other bytes raise ValueError.
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
    """Returns a source's model that names a normalization."""
    return source + _encode_field(_NORMALIZER_FIELD, name.encode("ascii"))


def read_normalizer(source):
    """Returns the name that `add_normalizer` stored, or ""."""
    _, fields = _parse(source)
    return fields.get(_NORMALIZER_FIELD, b"").decode("ascii", "replace")


def read_vocab_size(proto):
    """Returns V of a Vocabulary's `proto`; further pieces count as unknown."""
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return model.trainer_spec.vocab_size


def has_byte_fallback(proto):
    """Returns whether characters without a token become byte tokens."""
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return model.trainer_spec.byte_fallback


def has_crashing_piece(pieces):
    """Returns whether a piece is empty or begins with NUL, which crashes."""
    return any(piece[:1] in ("", "\0") for piece in pieces)


def _parse(vocabulary):
    """Returns a ModelProto, and its unknown fields of bytes by number."""
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
