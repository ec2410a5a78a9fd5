"""Text to ids and back for pretrained models, inside the graph."""

import functools

import tensorflow as tf

from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    OPUS_MT,
    TAG,
    opus_rules,
    read_kind,
    read_languages,
    read_vocab_size,
    split_vocabulary,
    text_piece_mask,
)
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID
from keras_transformer.types import TensorLike


class TokenizerPair(tf.Module):
    """A tokenizer for each side, `source` and `target`."""

    def __init__(self, source: Tokenizer, target: Tokenizer):
        super().__init__(name="tokenizer_pair")
        self.source = source
        self.target = target


def load_tokenizer(vocabulary: bytes) -> Tokenizer | TokenizerPair:
    """Returns the tokenizers of a `vocabulary.model`'s bytes.

    Raises ValueError for other bytes.
    """
    source, target = split_vocabulary(vocabulary)
    if source is target:
        return Tokenizer(vocabulary)
    kind = read_kind(source)
    source_classes = {
        "": TaggedTokenizer,
        OPUS_MT: OpusTokenizer,
        LANGUAGE_PAIR: LanguagePairTokenizer,
    }
    if kind not in source_classes:
        raise ValueError(
            f"The sources of this vocabulary have the unknown kind {kind!r}."
        )
    source_tokenizer = source_classes[kind](source)
    return TokenizerPair(source_tokenizer, VocabTokenizer(target))


class VocabTokenizer(Tokenizer):
    """Splits text by SentencePiece, then looks up the pieces in a vocab.

    So do Marian and Hugging Face's MarianTokenizer; a vocab is their dict from
    piece to id. A piece unknown to the SentencePiece model may have an id in a
    vocab of both languages. For `proto`, which has the V pieces of the vocab
    and others that only split text, see `export.pretrained.vocabulary`.
    """

    def __init__(self, proto: bytes):
        super().__init__(proto)
        self.vocabulary_size = read_vocab_size(proto)
        self._is_text = tf.constant(text_piece_mask(proto))

    def tokenize(self, text: TensorLike) -> tf.RaggedTensor:
        """Tokenizes text; see `Tokenizer.tokenize`."""
        return self._look_up(self.split(text))

    def tokenize_with_offsets(
        self, text: TensorLike
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits text into ids with their byte offsets."""
        pieces, *offsets = self._string_tokenizer.tokenize_with_offsets(text)
        return self._look_up(pieces), *offsets

    def _look_up(self, pieces):
        ids = self._id_tokenizer.string_to_id(pieces.values)
        ids = tf.where(tf.gather(self._is_text, ids), ids, UNKNOWN_ID)
        # The end is not text, so the mask has made it unknown.
        ends = tf.fill([pieces.nrows()], END_ID)
        last = pieces.row_splits[1:, None] - 1
        return pieces.with_values(tf.tensor_scatter_nd_update(ids, last, ends))


class TaggedTokenizer(VocabTokenizer):
    """A VocabTokenizer of sources that may begin with a tag such as >>fra<<.

    A tag is the target language of a model of several languages, and one id.
    Tags that the vocab lacks, or elsewhere in a text, are unknown. A text of
    tags only is blank.
    """

    num_tags = 1

    # Not set in the constructor: TensorFlow would save it.
    @functools.cached_property
    def languages(self) -> tuple[str, ...]:  # type: ignore[override]
        """Codes of the languages that a source's tags may name."""
        return read_languages(self.proto)

    def tokenize(self, text: TensorLike) -> tf.RaggedTensor:
        """Splits text into ids."""
        tags, _, rest = self._split_tags(text)
        pieces = self._string_tokenizer.tokenize(rest)
        counts = self._count_tags(tags, pieces)
        return _prepend(self._tag_ids(tags), counts, self._look_up(pieces))

    def tokenize_with_offsets(
        self, text: TensorLike
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits text into ids with their byte offsets."""
        tags, tag_ends, rest = self._split_tags(text)
        pieces, starts, ends = self._string_tokenizer.tokenize_with_offsets(
            rest
        )
        counts = self._count_tags(tags, pieces)
        tag_starts = tag_ends - tf.strings.length(tags)
        rest_start = tf.strings.length(text) - tf.strings.length(rest)
        rest_start = tf.cast(rest_start[:, None], starts.dtype)
        return (
            _prepend(self._tag_ids(tags), counts, self._look_up(pieces)),
            _prepend(tag_starts, counts, starts + rest_start),
            _prepend(tag_ends, counts, ends + rest_start),
        )

    def has_token(self, tokens: TensorLike) -> tf.Tensor:
        """Returns which strings of any shape are tokens with an id."""
        ids = self._id_tokenizer.string_to_id(tokens)
        return (ids != UNKNOWN_ID) & (ids < self.vocabulary_size)

    def split(self, text: TensorLike) -> tf.RaggedTensor:
        """Splits text into pieces."""
        tags, _, rest = self._split_tags(text)
        pieces = self._string_tokenizer.tokenize(rest)
        return _prepend(tags, self._num_given(tags), pieces)

    def _split_tags(self, text):
        """Splits text, string [B].

        Returns its tags, string [B, num_tags], in the order of the ids, the
        bytes of the text at which they end, int32 [B, num_tags], and the rest.
        """
        tag, rest = _split_tag(text)
        tag_end = tf.strings.length(text) - tf.strings.length(rest)
        return tag[:, None], tag_end[:, None], rest

    def _num_given(self, tags):
        """Returns how many of the tags [B, num_tags] become ids: int32 [B]."""
        return tf.cast(tags[:, 0] != "", tf.int32)

    def _count_tags(self, tags, pieces):
        """Returns numbers of tag ids, int32 [B]; 0 where there is no text."""
        has_text = pieces.row_lengths() > 1
        return tf.where(has_text, self._num_given(tags), 0)

    def _tag_ids(self, tags):
        ids = self._id_tokenizer.string_to_id(tags)
        return tf.where(ids < self.vocabulary_size, ids, UNKNOWN_ID)


class LanguagePairTokenizer(TaggedTokenizer):
    """A VocabTokenizer of sources such as ">>eng_Latn<<>>fra_Latn<< A text".

    The tags are the languages of the text and of its translation; the second
    is the first id. A single tag is that of the translation; missing ones are
    unknown.
    """

    num_tags = 2

    def _split_tags(self, text):
        first, first_end, rest = super()._split_tags(text)
        second, second_end, rest = super()._split_tags(rest)
        has_second = second != ""
        target = tf.where(has_second, second, first)
        source = tf.where(has_second, first, "")
        ends = [first_end + second_end, first_end]
        return tf.concat([target, source], 1), tf.concat(ends, 1), rest

    def _num_given(self, tags):
        return tf.fill(tf.shape(tags)[:1], self.num_tags)


def _prepend(tag_values, counts, values):
    """Adds the first `counts` of values [B, num_tags] to ragged ones [B, T]."""
    tag_values = tf.cast(tag_values, values.dtype)
    tag_values = tf.RaggedTensor.from_tensor(tag_values, lengths=counts)
    return tf.concat([tag_values, values], axis=1)


def _split_tag(text):
    """Returns the tag that a text begins with, or "", and the rest."""
    tagged_text = f"{TAG}(?s:.*)"
    is_tagged = tf.strings.regex_full_match(text, tagged_text)
    tag = tf.strings.regex_replace(text, tagged_text, r"\1")
    rest = tf.strings.regex_replace(text, f"^{TAG}", "", replace_global=False)
    return tf.where(is_tagged, tag, ""), rest


class OpusTokenizer(TaggedTokenizer):
    """A TaggedTokenizer with the normalization of OPUS-MT's scripts."""

    def clean_text(self, text: TensorLike) -> tf.Tensor:
        """Cleans the text and normalizes it; NUL becomes a space."""
        text = tf.strings.regex_replace(text, r"\x00", " ")
        text = super().clean_text(text)
        for pattern, replacement in opus_rules():
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text
