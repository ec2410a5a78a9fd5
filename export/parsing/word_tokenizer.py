"""Tokenizes words into ids from which the words can be counted."""

import numpy as np
import tensorflow as tf

from export.parsing.trees import UNICODE_SPACE
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID

# SentencePiece's mark at the beginning of a word.
_SPACE = "\u2581".encode()


class WordTokenizer(tf.Module):
    """Splits words that are separated by white space into pieces.

    The ids of a SentencePiece model are reordered: pieces that begin a word
    have the highest ids, and each word has exactly one of them, as its first
    piece. A word that normalisation removes becomes the piece of a lone space;
    where normalisation splits a word, the first piece of its second part is
    unknown.

    Attributes:
        subwords: Tokenizer.
        vocabulary_size: number of ids.
        first_word_id: the lowest id of a piece that begins a word.

    Raises:
        ValueError: `proto` is not a SentencePiece model, or has no piece of a
            lone space.
    """

    def __init__(self, proto):
        self.subwords = Tokenizer(proto)
        super().__init__(name=f"words_of_{self.subwords.name}")
        self.vocabulary_size = self.subwords.vocabulary_size
        names = self.subwords.ids_to_tokens(
            tf.range(self.vocabulary_size)
        ).numpy()
        begins = np.array([name.startswith(_SPACE) for name in names])
        if _SPACE not in names:
            raise ValueError("This SentencePiece model has no lone space.")
        order = np.argsort(begins, kind="stable")
        ids = np.argsort(order).astype(np.int32)
        self.first_word_id = int(self.vocabulary_size - begins.sum())
        lone = ids[names.tolist().index(_SPACE)]
        self._lone = int(lone)
        # The id of each piece at the beginning of a word, and after it.
        self._first = tf.constant(np.where(begins, ids, lone))
        self._later = tf.constant(np.where(begins, UNKNOWN_ID, ids))

    def split_words(self, text):
        """Splits sentences, string [B], into words as Penn trees write them.

        Returns a RaggedTensor string [B, None]; brackets are -LRB- and -RRB-,
        and Unicode's white space beyond ASCII is removed.
        """
        text = self.subwords.clean_text(text)
        for pattern, replacement in (
            (UNICODE_SPACE, ""),
            (r"\(", "-LRB-"),
            (r"\)", "-RRB-"),
        ):
            text = tf.strings.regex_replace(text, pattern, replacement)
        return tf.strings.split(text)

    def tokenize(self, text):
        """Splits sentences, string [B], into ids.

        Returns a RaggedTensor int32 [B, None], every row ending with the end
        id, and the number of words of each sentence, int32 [B].
        """
        words = tf.strings.split(self.subwords.clean_text(text))
        return self.encode_words(words), tf.cast(words.row_lengths(), tf.int32)

    def encode_words(self, words):
        """Splits words, a RaggedTensor string [B, None], into ids.

        Returns a RaggedTensor int32 [B, None], every row ending with the end
        id.
        """
        # Drops the end id of each word.
        pieces = self.subwords.tokenize(words.values)[:, :-1]
        lengths = pieces.row_lengths()
        is_first = tf.ragged.range(lengths).values == 0
        first = tf.gather(self._first, pieces.values)
        later = tf.gather(self._later, pieces.values)
        ids = pieces.with_values(tf.where(is_first, first, later))
        is_empty = tf.cast(lengths == 0, tf.int64)
        lone = tf.fill([tf.reduce_sum(is_empty)], self._lone)
        lone = tf.RaggedTensor.from_row_lengths(lone, is_empty)
        by_word = words.with_values(tf.concat([ids, lone], axis=1))
        end = tf.fill([words.nrows(), 1], END_ID)
        return tf.concat([by_word.merge_dims(1, 2), end], axis=1)

    def encode(self, texts):
        """Tokenizes a list of str to a list of int32 arrays."""
        if not texts:
            return []
        self.subwords.restore_resources()
        ragged, _ = self.tokenize(tf.constant(texts))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        return [values[a:b] for a, b in zip(splits[:-1], splits[1:])]
