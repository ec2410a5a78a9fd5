"""Text to ids and back for pretrained models, inside the graph."""

import tensorflow as tf

from export.tokenizers.python_tokenizers import (
    OPUS_CONTROL,
    OPUS_MT,
    OPUS_PUNCTUATION,
    OPUS_SPACES,
    TAG,
    read_normalizer,
    read_vocab_size,
    split_vocabulary,
    text_piece_mask,
)
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID


class TokenizerPair(tf.Module):
    """A tokenizer for each side, `source` and `target`."""

    def __init__(self, source, target):
        super().__init__(name="tokenizer_pair")
        self.source = source
        self.target = target


def load_tokenizer(vocabulary):
    """Returns the Tokenizer or TokenizerPair of a `vocabulary.model`'s bytes.

    Raises ValueError for other bytes.
    """
    source, target = split_vocabulary(vocabulary)
    if source is target:
        return Tokenizer(vocabulary)
    normalizer = read_normalizer(source)
    # "" without a normalization.
    source_classes = {"": TaggedTokenizer, OPUS_MT: OpusTokenizer}
    if normalizer not in source_classes:
        raise ValueError(
            "The sources of this vocabulary have the unknown normalization "
            f"{normalizer!r}."
        )
    source_tokenizer = source_classes[normalizer](source)
    return TokenizerPair(source_tokenizer, VocabTokenizer(target))


class VocabTokenizer(Tokenizer):
    """Splits text by SentencePiece, then looks up the pieces in a vocab.

    So do Marian and Hugging Face's MarianTokenizer; a vocab is their dict from
    piece to id. A piece unknown to the SentencePiece model may have an id in a
    vocab of both languages. For `proto`, which has the V pieces of the vocab
    and others that only split text, see `export.pretrained.vocabulary`.
    """

    def __init__(self, proto):
        super().__init__(proto)
        self.vocabulary_size = read_vocab_size(proto)
        self._is_text = tf.constant(text_piece_mask(proto))

    def tokenize(self, text):
        """Tokenizes text; see `Tokenizer.tokenize`."""
        return self._look_up(self.split(text))

    def tokenize_with_offsets(self, text):
        """Splits text into ids with their byte offsets."""
        pieces, *offsets = self._string_tokenizer.tokenize_with_offsets(
            self.clean_text(text)
        )
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

    A tag is the target language of a multilingual OPUS-MT model, and one id.
    Tags that the vocab lacks, or elsewhere in a text, are unknown.
    """

    def tokenize(self, text):
        """Splits text into ids."""
        return self.tokenize_with_offsets(text)[0]

    def tokenize_with_offsets(self, text):
        """Splits text into ids with their byte offsets."""
        text = self.clean_text(text)
        tags, rest = _split_tags(text)
        pieces, starts, ends = self._string_tokenizer.tokenize_with_offsets(
            rest
        )
        # The byte of each text [B] at which the tag ends and the rest starts.
        rest_start = tf.strings.length(text) - tf.strings.length(rest)
        tag_ends = tf.gather(rest_start, tags.value_rowids())
        tag_starts = tag_ends - tf.strings.length(tags.values)

        def prepend(tag_offsets, offsets):
            tag_offsets = tags.with_values(tf.cast(tag_offsets, offsets.dtype))
            shifted = offsets + tf.cast(rest_start[:, None], offsets.dtype)
            return tf.concat([tag_offsets, shifted], axis=1)

        tag_ids = self._id_tokenizer.string_to_id(tags.values)
        in_vocab = tag_ids < self.vocabulary_size
        tag_ids = tags.with_values(tf.where(in_vocab, tag_ids, UNKNOWN_ID))
        ids = tf.concat([tag_ids, self._look_up(pieces)], axis=1)
        return ids, prepend(tag_starts, starts), prepend(tag_ends, ends)

    def split(self, text):
        """Splits text into pieces."""
        tags, rest = _split_tags(self.clean_text(text))
        return tf.concat([tags, self._string_tokenizer.tokenize(rest)], axis=1)


def _split_tags(text):
    """Returns the tags of texts, ragged string [B, None], and the rest."""
    tagged_text = f"{TAG}(?s:.*)"
    is_tagged = tf.strings.regex_full_match(text, tagged_text)
    tags = tf.boolean_mask(text, is_tagged)
    tags = tf.strings.regex_replace(tags, tagged_text, r"\1")
    tags = tf.RaggedTensor.from_row_lengths(tags, tf.cast(is_tagged, tf.int64))
    rest = tf.strings.regex_replace(text, f"^{TAG}", "", replace_global=False)
    return tags, rest


class OpusTokenizer(TaggedTokenizer):
    """A TaggedTokenizer with the normalization of OPUS-MT's scripts."""

    def clean_text(self, text):
        """Cleans the text and normalizes it; NUL becomes a space."""
        text = tf.strings.regex_replace(text, r"\x00", " ")
        text = super().clean_text(text)
        rules = [*OPUS_PUNCTUATION, (OPUS_CONTROL, " "), *OPUS_SPACES]
        for pattern, replacement in rules:
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text
