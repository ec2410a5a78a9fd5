"""Text to ids and back as pretrained models do it, inside the graph."""

import copy

import tensorflow as tf

from export.pretrained import opus_text
from export.pretrained.plain_tokenizer import TAG, split_tag
from export.pretrained.two_sided import (
    listed_pieces,
    sides_of,
    text_rules_of,
)
from keras_transformer.config import UNKNOWN_ID
from keras_transformer.tokenizer import Tokenizer


def tokenizer_of(vocabulary):
    """Returns the tokenizer of a model directory's vocabulary.

    Args:
        vocabulary: bytes of its `vocabulary.model`.

    Returns:
        Tokenizer, or TokenizerPair of a pretrained model.

    Raises:
        ValueError: they are no vocabulary of ours.
    """
    source, target = sides_of(vocabulary)
    if source is target:
        return Tokenizer(vocabulary)
    rules = text_rules_of(source)
    if rules not in _OF_SOURCES:
        raise ValueError(
            f"The sources of this vocabulary are read by the rules {rules!r}, "
            "which this version does not know."
        )
    return TokenizerPair(_OF_SOURCES[rules](source), TableTokenizer(target))


class TableTokenizer(Tokenizer):
    """Pieces are looked up by what they read, as in a table of pieces.

    So it is in Marian and in Hugging Face's tokenizer: text that the
    SentencePiece model does not know, but a table of both languages has, is
    known.

    Args:
        proto: bytes of a SentencePiece model as for Tokenizer; see
            `export.pretrained.vocabulary`. Pieces behind its V only cut
            text, and count as unknown.

    Raises:
        ValueError: the bytes are not such a model.
    """

    def __init__(self, proto):
        super().__init__(proto)
        self.vocabulary_size = listed_pieces(proto)

    def _load_pieces(self):
        super()._load_pieces()
        # Of a second tokenizer an export would hold the model once more.
        self._written = copy.copy(self._pieces)
        self._written.out_type = tf.string

    def tokenize(self, text):
        """See the base class."""
        return self._cut(self.readable(text))

    def _cut(self, text):
        """Splits text that is `readable` into ids."""
        written = self._written.tokenize(text)
        return written.with_values(self._known(written.values))

    def _known(self, pieces):
        """Returns the ids of pieces: string [N] to int32 [N]."""
        ids = self._pieces.string_to_id(pieces)
        return tf.where(ids < self.vocabulary_size, ids, UNKNOWN_ID)


class TaggedTokenizer(TableTokenizer):
    """The same of sources, which may begin with a tag such as ">>fra<<".

    By it many-to-many models of OPUS-MT are told the language they translate
    to. It is one id; a tag that the table lacks counts as unknown.
    """

    def tokenize(self, text):
        """See the base class."""
        text = self.readable(text)
        is_tagged = tf.strings.regex_full_match(text, f"{TAG}(?s:.*)")
        tags = tf.strings.regex_replace(
            tf.boolean_mask(text, is_tagged), rf"{TAG}(?s:.*)", r"\1"
        )
        tag_ids = tf.RaggedTensor.from_row_lengths(
            self._known(tags), tf.cast(is_tagged, tf.int64)
        )
        rest = tf.strings.regex_replace(text, f"^{TAG}", "", False)
        return tf.concat([tag_ids, self._cut(rest)], axis=1)

    def split_tags(self, text):
        """See the base class."""
        return split_tag(text)


class OpusTokenizer(TaggedTokenizer):
    """The same of sources as OPUS-MT's own scripts prepare them.

    See `export.pretrained.opus_text`.
    """

    def readable(self, text):
        """See the base class; here NUL is one more control character."""
        text = tf.strings.regex_replace(text, r"\x00", " ")
        text = super().readable(text)
        for pattern, replacement in (
            *opus_text.PUNCTUATION,
            (opus_text.CONTROL_IN_RE2, " "),
            *opus_text.SPACES,
        ):
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text

    def split_tags(self, text):
        """See the base class."""
        return split_tag(opus_text.as_opus(text))


# By the names that vocabularies have of the rules.
_OF_SOURCES = {"": TaggedTokenizer, opus_text.OPUS_TEXT: OpusTokenizer}


class TokenizerPair(tf.Module):
    """A tokenizer for each side.

    Args:
        source: Tokenizer of sources.
        target: Tokenizer of targets.

    Attributes: as given.
    """

    def __init__(self, source, target):
        super().__init__(name="tokenizer_pair")
        self.source = source
        self.target = target
