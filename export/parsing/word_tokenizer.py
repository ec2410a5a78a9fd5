"""Splits text into the words of treebanks, and words into ids.

Raw text is split with nltk's tokenizer, words with a SentencePiece model.
"""

import re

import numpy as np
import tensorflow as tf
from nltk.tokenize import NLTKWordTokenizer

from export.parsing.trees import (
    UNICODE_SPACE,
    escape_brackets,
    remove_unicode_spaces,
)
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID

_NLTK = NLTKWordTokenizer()
# Typographic quotation marks as the Penn Treebank writes them.
_QUOTES = str.maketrans({"“": "``", "”": "''", "‘": "`", "’": "'"})

# A hyphen within a word, or a slash.
_HYPHEN = re.compile(r"((?<=[^-/])-(?=[^-/])|(?<=.)/(?=.))")
# Affixes that stay in their word, by LDC2007T02's guidelines for hyphenated
# items as far as CRAFT follows them.
_PREFIX = re.compile(
    "(?i)ante|anti|arch|auto|be|bi|bio|co|counter|cross|cyber|de|eco|ex|extra|"
    "hetero|homo|inter|intra|macro|mega|micro|mid|mini|multi|neo|non|over|pan|"
    "para|peri|post|pre|pro|pseudo|quasi|re|semi|sub|super|tri|ultra|un|uni|"
    "vice"
)
_SUFFIX = re.compile("(?i)esque|ette|fest|fold|gate|itis|less|most|wise")

# SentencePiece's mark at the beginning of a word, bytes as in tensors.
_SPACE = "\u2581".encode()


def split_at_spaces(text):
    """Splits a sentence at ASCII white space, and escapes brackets."""
    text = remove_unicode_spaces(text.replace("\0", ""))
    return [escape_brackets(word) for word in text.split()]


def penn_tokenize(text):
    """Splits a sentence of raw text as the Penn Treebank does.

    Punctuation becomes separate words, quotation marks `` and '', brackets
    -LRB- and -RRB-; contractions become two words (do n't, can not). Only a
    period at the end is split off: one line is one sentence.
    """
    words = _NLTK.tokenize(text.translate(_QUOTES))
    return split_at_spaces(" ".join(words))


def ontonotes_tokenize(text):
    """Splits like `penn_tokenize`, and also at hyphens and slashes.

    English treebanks since OntoNotes, such as CRAFT, do so: "New York - based",
    "and / or"; words with certain affixes are not split (non-zero).
    """
    words = penn_tokenize(text)
    return [part for word in words for part in _split_hyphens(word)]


def _split_hyphens(word):
    if re.fullmatch(r"-\w+-", word):
        return [word]
    # Parts alternate with the marks between them.
    first, *others = _HYPHEN.split(word)
    parts = [first]
    for mark, part in zip(others[::2], others[1::2]):
        has_affix = _PREFIX.fullmatch(parts[-1]) or _SUFFIX.fullmatch(part)
        if mark == "-" and has_affix:
            parts[-1] += mark + part
        else:
            parts += [mark, part]
    # The part between two slashes is empty.
    return [part for part in parts if part]


class WordTokenizer(tf.Module):
    """Tokenizes words, whose brackets are escaped, to pieces.

    The ids of a SentencePiece model are reordered: pieces that begin a word
    have the highest ids, from `first_word_id` on, and each word has exactly one
    of them, as its first piece. The piece of a lone space replaces a first
    piece without a space, and a word that normalization removes. If
    normalization splits a word, the first piece of its second part is unknown.

    `subwords` is the model's Tokenizer. Raises ValueError if `proto` is not a
    SentencePiece model, or has no piece of a lone space.
    """

    def __init__(self, proto):
        self.subwords = Tokenizer(proto)
        super().__init__(name=f"words_of_{self.subwords.name}")
        self.vocabulary_size = self.subwords.vocabulary_size
        old_ids = tf.range(self.vocabulary_size)
        pieces = self.subwords.ids_to_tokens(old_ids).numpy().tolist()
        if _SPACE not in pieces:
            raise ValueError("This SentencePiece model has no lone space.")
        begins_word = np.array([piece.startswith(_SPACE) for piece in pieces])
        # Ranks: the new id of each piece. Special ids stay 0 to 3.
        old_order = np.argsort(begins_word, kind="stable")
        ids = np.argsort(old_order).astype(np.int32)
        self.first_word_id = int(self.vocabulary_size - begins_word.sum())
        self._space_id = ids[pieces.index(_SPACE)]
        # The id of each piece at the beginning of a word, and after it.
        first_ids = np.where(begins_word, ids, self._space_id)
        later_ids = np.where(begins_word, UNKNOWN_ID, ids)
        self._first_ids = tf.constant(first_ids)
        self._later_ids = tf.constant(later_ids)

    def split_words(self, text):
        """Splits text, string [B], like `split_at_spaces`, in a graph.

        Returns a RaggedTensor string [B, None].
        """
        text = self.subwords.clean_text(text)
        # As `remove_unicode_spaces` and `escape_brackets`.
        text = tf.strings.regex_replace(text, UNICODE_SPACE, "")
        text = tf.strings.regex_replace(text, r"\(", "-LRB-")
        text = tf.strings.regex_replace(text, r"\)", "-RRB-")
        return tf.strings.split(text)

    def encode_words(self, words):
        """Tokenizes words, a RaggedTensor string [B, None], to ids.

        Returns a RaggedTensor int32 [B, None]; each row ends with the end id.
        """
        # Of W words, ragged [W, None], without the end id of each.
        pieces = self.subwords.tokenize(words.values)[:, :-1]
        lengths = pieces.row_lengths()
        is_first = tf.ragged.range(lengths).values == 0
        first = tf.gather(self._first_ids, pieces.values)
        later = tf.gather(self._later_ids, pieces.values)
        ids = pieces.with_values(tf.where(is_first, first, later))
        # One space for a word without pieces, none for the rest: [W, None].
        num_spaces = tf.cast(lengths == 0, tf.int64)
        spaces = tf.fill([tf.reduce_sum(num_spaces)], self._space_id)
        spaces = tf.RaggedTensor.from_row_lengths(spaces, num_spaces)
        word_ids = tf.concat([ids, spaces], axis=1)
        sentence_ids = words.with_values(word_ids).merge_dims(1, 2)
        end = tf.fill([words.nrows(), 1], END_ID)
        return tf.concat([sentence_ids, end], axis=1)

    def encode(self, texts):
        """Tokenizes a list of str, words and spaces, to int32 arrays."""
        if not texts:
            return []
        self.subwords.restore_resources()
        text = self.subwords.clean_text(tf.constant(texts))
        ragged = self.encode_words(tf.strings.split(text))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        return [values[a:b] for a, b in zip(splits[:-1], splits[1:])]
