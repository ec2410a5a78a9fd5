"""Text to ids and back without TensorFlow, and the file `vocabulary.model`.

The file is one SentencePiece model, or one per side: the target's is stored in
the source's, in a field of the range that SentencePiece reserves for
extensions. Another such field has the kind of the sources: a normalization, or
which tags they begin with.

A model of several languages has a piece ">>code<<" for each, its tag. A source
begins with the tag of its target's language, as in Marian. A LANGUAGE_PAIR
source, as in M2M-100 and NLLB-200, begins with the tags of its own and its
target's language; the ids begin with the target's (`TargetLanguageModel`).
"""

import functools
import re
import typing
from collections.abc import Callable, Iterable

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from export.tokenizers import sentencepiece_model
from export.tokenizers.letter_case import (
    CASE_MARKS,
    character_class,
    has_case_marks,
    mark_case,
    restore_case,
)
from export.tokenizers.tags import SPACE, TAG, SourceTags, split_tags

if typing.TYPE_CHECKING:
    from keras_transformer.types import TensorLike

# The normalization of OPUS-MT's scripts: full-width punctuation becomes ASCII,
# control and unassigned characters become spaces, and spaces are collapsed, as
# in the training text of its models. Hugging Face's tokenizer skips it.
OPUS_MT = "opus-mt"
# Regular expressions, applied in order. Like Moses'
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
# Kind of sources that begin with two tags.
LANGUAGE_PAIR = "language-pair"
# Fields of a protocol buffer, and the wire type of bytes.
_TARGET_FIELD, _KIND_FIELD = 200, 201
_BYTES = 2


class PythonTokenizer(SourceTags):
    """Text to ids and back by the SentencePiece model `proto`."""

    def __init__(self, proto: bytes):
        self.proto = proto
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=proto
        )
        self._visible_characters: dict[str, bool] = {}
        self.vocabulary_size = len(self._processor)
        pieces = map(self.id_to_token, range(self.vocabulary_size))
        self._has_case_marks = has_case_marks(pieces)

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of a text, without the end token."""
        return self._processor.id_to_piece(self.ids(text)[:-1])

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text, with the end id."""
        ids = self._processor.encode(self._clean(text))
        return [*ids, self._processor.eos_id()]

    def _clean(self, text):
        text = text.replace("\0", "")
        if self._has_case_marks:
            text = mark_case(text, self._is_token)
        return text

    def count_visible(self, text: str) -> int:
        """Returns how many visible characters a text becomes.

        White space, marks of capitals, and characters that SentencePiece drops
        are not visible.
        """
        return sum(map(self._is_visible, self._clean(text)))

    def _is_visible(self, character):
        # In a dict: functools.cache would keep the tokenizer for ever.
        if character not in self._visible_characters:
            is_mark = character.isspace() or character in CASE_MARKS
            pieces = self._processor.encode(character, out_type=str)
            self._visible_characters[character] = not is_mark and any(
                piece.strip(SPACE) for piece in pieces
            )
        return self._visible_characters[character]

    def visible_spans(self, text: str) -> list[tuple[int, int]]:
        """Counts visible characters before each token and up to its end.

        The end token is not among them.
        """
        return self._visible_spans(self._clean(text))

    def _visible_spans(self, text, before=0):
        ends = np.cumsum([len(each.encode()) for each in text])
        counts = np.cumsum([before, *map(self._is_visible, text)])
        pieces = self._processor.encode(text, return_type="proto").pieces
        return [
            tuple(counts[np.searchsorted(ends, offsets, "right")].tolist())
            for offsets in ([each.begin, each.end] for each in pieces)
        ]

    def _is_token(self, text):
        token_id = self._processor.piece_to_id(SPACE + text)
        return token_id != self._processor.unk_id()

    def text(self, ids: list[int] | list[str]) -> str:
        """Returns the text of ids, without special ids.

        Tokens are joined too. Bytes that are not UTF-8 become
        U+FFFD.
        """
        text = self._processor.decode(ids)
        return restore_case(text) if self._has_case_marks else text

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of one id, such as "▁the"."""
        return self._processor.id_to_piece(token_id)

    def encode(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Tokenizes texts to int32 arrays with end ids."""
        return [np.array(self.ids(text), np.int32) for text in texts]

    def decode(self, ids: "TensorLike") -> list[str]:
        """Joins int32 [B, T] ids to texts."""
        return [self.text(row) for row in np.asarray(ids).tolist()]


class PythonVocabTokenizer(PythonTokenizer):
    """The VocabTokenizer of `pretrained_tokenizers` without TensorFlow.

    A text may begin with `num_tags` tags, as in TaggedTokenizer and
    LanguagePairTokenizer. `normalize` is applied first.
    """

    def __init__(
        self,
        proto: bytes,
        num_tags: int = 0,
        normalize: Callable[[str], str] = str,
    ):
        super().__init__(proto)
        self._is_text = text_piece_mask(proto)
        self.vocabulary_size = read_vocab_size(proto)
        self.num_tags = num_tags
        self.languages = read_languages(proto) if num_tags else ()
        self._normalize = normalize

    def ids(self, text: str) -> list[int]:
        """Returns ids with the end id; a leading tag is one id."""
        processor, unknown_id = self._processor, self._processor.unk_id()
        tags, text = split_tags(self._clean(text), self.num_tags)
        ids = []
        for piece in processor.encode(text, out_type=str):
            piece_id = processor.piece_to_id(piece)
            ids.append(piece_id if self._is_text[piece_id] else unknown_id)
        if not ids:
            return [processor.eos_id()]
        tag_ids = [processor.piece_to_id(tag) for tag in tags]
        if self.has_both_tags:
            tag_ids = [unknown_id] * (2 - len(tags)) + tag_ids
        tag_ids = [
            each if each < self.vocabulary_size else unknown_id
            for each in reversed(tag_ids)
        ]
        return [*tag_ids, *ids, processor.eos_id()]

    def _clean(self, text):
        return self._normalize(text)

    def visible_spans(self, text: str) -> list[tuple[int, int]]:
        """See the base class; a missing tag has no characters."""
        text = self._clean(text)
        tags, rest = split_tags(text, self.num_tags)
        if not self._processor.encode(rest):
            return []
        size = sum(map(self._is_visible, "".join(tags)))
        missing = (2 - len(tags)) * self.has_both_tags
        tag_spans = (missing + len(tags)) * [(0, size)]
        return tag_spans + self._visible_spans(rest, size)


def read_languages(proto: bytes) -> tuple[str, ...]:
    """Returns the sorted codes of the tags in a Vocabulary's `proto`."""
    return tuple(sorted(find_tags(proto)))


def find_tags(proto: bytes) -> dict[str, int]:
    """Returns the ids of the tags in a Vocabulary's `proto`, by code."""
    model = sentencepiece_model.ModelProto.FromString(proto)
    pieces = model.pieces[: model.trainer_spec.vocab_size]
    tags = (re.fullmatch(TAG, each.piece) for each in pieces)
    return {tag[1][2:-2]: i for i, tag in enumerate(tags) if tag}


def text_piece_mask(proto: bytes) -> list[bool]:
    """Returns for each id whether text may contain it.

    False for ids of V and above, control tokens, and tags, which are allowed
    only at the beginning of a source.
    """
    model = sentencepiece_model.ModelProto.FromString(proto)
    return [
        index < model.trainer_spec.vocab_size
        and piece.type not in (piece.CONTROL, piece.UNKNOWN)
        and not re.fullmatch(TAG, piece.piece)
        for index, piece in enumerate(model.pieces)
    ]


class PythonTokenizerPair(typing.NamedTuple):
    """A tokenizer for each side; one twice for a joint vocabulary."""

    source: PythonTokenizer
    target: PythonTokenizer


def load_python_tokenizers(vocabulary: bytes) -> PythonTokenizerPair:
    """Returns the tokenizers of a vocabulary.

    Raises ValueError for bytes that are not a SentencePiece model.
    """
    source, target = split_vocabulary(vocabulary)
    if source is target:
        return PythonTokenizerPair(*[PythonTokenizer(vocabulary)] * 2)
    return PythonTokenizerPair(
        load_python_source_tokenizer(source), PythonVocabTokenizer(target)
    )


def load_python_source_tokenizer(proto: bytes) -> PythonVocabTokenizer:
    """Returns the tokenizer for sources of a pretrained model."""
    kind = read_kind(proto)
    if kind not in ("", OPUS_MT, LANGUAGE_PAIR):
        raise ValueError(f"There is no kind of sources {kind!r}.")
    normalize: Callable[[str], str]
    normalize = normalize_opus if kind == OPUS_MT else str
    num_tags = 2 if kind == LANGUAGE_PAIR else 1
    return PythonVocabTokenizer(proto, num_tags, normalize)


def normalize_opus(text: str) -> str:
    """Normalizes a text as OPUS-MT's scripts do."""
    for pattern, replacement in opus_rules():
        text = re.sub(pattern, replacement, text)
    return text


@functools.cache
def opus_rules() -> tuple[tuple[str, str], ...]:
    """Returns (regular expression, replacement) pairs for Python and RE2."""
    # Perl's \p{C} without line feeds, as ranges: RE2's has no unassigned
    # characters, and knows another version of Unicode. Text has no surrogates.
    control = character_class("C[^s]", excluded="\n")
    return (
        *OPUS_PUNCTUATION,
        (f"[{control}]", " "),
        (" +", " "),
        ("^ | $", ""),
    )


def join_vocabularies(source: bytes, target: bytes) -> bytes:
    """Joins two SentencePiece models to a vocabulary."""
    return source + _encode_field(_TARGET_FIELD, target)


def split_vocabulary(vocabulary: bytes) -> tuple[bytes, bytes]:
    """Returns the SentencePiece models of source and target.

    A joint vocabulary is returned twice. Other bytes raise ValueError.
    """
    model, fields = _parse(vocabulary)
    if _TARGET_FIELD not in fields:
        return vocabulary, vocabulary
    model.DiscardUnknownFields()
    source = model.SerializeToString(deterministic=True)
    if _KIND_FIELD in fields:
        source += _encode_field(_KIND_FIELD, fields[_KIND_FIELD])
    return source, fields[_TARGET_FIELD]


def add_kind(source: bytes, kind: str) -> bytes:
    """Returns a source's model with its kind: OPUS_MT or LANGUAGE_PAIR."""
    return source + _encode_field(_KIND_FIELD, kind.encode("ascii"))


def make_tagged_vocabulary(proto: bytes, num_tags: int) -> bytes:
    """Returns a vocabulary whose sources begin with 1 or 2 tags.

    `proto` is a model of `train_vocabulary`, where tags are words.
    """
    model = sentencepiece_model.ModelProto.FromString(proto)
    for piece in model.pieces:
        if re.fullmatch(SPACE + TAG, piece.piece):
            piece.piece = piece.piece.removeprefix(SPACE)
            piece.type = piece.CONTROL
    target = model.SerializeToString(deterministic=True)
    source = add_kind(target, LANGUAGE_PAIR) if num_tags == 2 else target
    return join_vocabularies(source, target)


def read_kind(source: bytes) -> str:
    """Returns what `add_kind` stored, or ""."""
    _, fields = _parse(source)
    return fields.get(_KIND_FIELD, b"").decode("ascii", "replace")


def read_vocab_size(proto: bytes) -> int:
    """Returns V of a Vocabulary's `proto`; further pieces count as unknown."""
    model = sentencepiece_model.ModelProto.FromString(proto)
    return model.trainer_spec.vocab_size


def has_byte_fallback(proto: bytes) -> bool:
    """Returns whether characters without a token become byte tokens."""
    model = sentencepiece_model.ModelProto.FromString(proto)
    return model.trainer_spec.byte_fallback


def has_crashing_piece(pieces: Iterable[str]) -> bool:
    """Returns whether a piece is empty or begins with NUL, which crashes."""
    return any(piece[:1] in ("", "\0") for piece in pieces)


def _parse(vocabulary):
    """Returns a ModelProto, and its unknown fields of bytes by number."""
    model = sentencepiece_model.ModelProto()
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
