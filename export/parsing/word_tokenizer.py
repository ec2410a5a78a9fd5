"""Splits text into the words of treebanks, and words into ids.

Raw text is split with nltk's tokenizer, words with a SentencePiece model.
"""

import itertools
import re
import string
from collections.abc import Iterable

import numpy as np
from nltk.tokenize import NLTKWordTokenizer

from export.parsing.trees import escape_brackets, remove_unicode_spaces
from export.tokenizers import load_tokenizer, sentencepiece_model
from export.tokenizers.tags import SPACE
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID

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

# As bytes.split and TensorFlow, unlike str.split.
_WORD = re.compile(f"[^{string.whitespace}]+")


def split_at_spaces(text: str) -> list[str]:
    """Splits a sentence at ASCII white space, and escapes brackets."""
    text = remove_unicode_spaces(text.replace("\0", ""))
    return [escape_brackets(word) for word in text.split()]


def penn_tokenize(text: str) -> list[str]:
    """Splits a sentence of raw text as the Penn Treebank does.

    Punctuation becomes separate words, quotation marks `` and '', brackets
    -LRB- and -RRB-; contractions become two words (do n't, can not). Only a
    period at the end is split off: one line is one sentence.
    """
    words = _NLTK.tokenize(text.translate(_QUOTES))
    return split_at_spaces(" ".join(words))


def ontonotes_tokenize(text: str) -> list[str]:
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


class WordTokenizer:
    """Tokenizes words, whose brackets are escaped, to pieces.

    The ids of a SentencePiece model are reordered: pieces that begin a word
    have the highest ids, from `first_word_id` on, and each word has exactly one
    of them, as its first piece. The piece of a lone space replaces a first
    piece without a space, and a word that normalization removes. If
    normalization splits a word, the first piece of its second part is unknown.

    `subwords` is the model's tokenizer from `load_tokenizer`. Lists have the
    new id of each of its ids: `first_ids` at the beginning of a word,
    `later_ids` after it. Raises ValueError if `proto` is not a SentencePiece
    model, or has no piece of a lone space.
    """

    def __init__(self, proto: bytes):
        self.subwords = load_tokenizer(proto).source
        self.vocabulary_size = self.subwords.vocabulary_size
        model = sentencepiece_model.ModelProto.FromString(proto)
        pieces = [each.piece for each in model.pieces[: self.vocabulary_size]]
        if SPACE not in pieces:
            raise ValueError("This SentencePiece model has no lone space.")
        begins_word = np.array([piece.startswith(SPACE) for piece in pieces])
        # Ranks: the new id of each piece. Special ids stay 0 to 3.
        old_order = np.argsort(begins_word, kind="stable")
        ids = np.argsort(old_order).astype(np.int32)
        self.first_word_id = int(self.vocabulary_size - begins_word.sum())
        space_id = ids[pieces.index(SPACE)]
        self.first_ids = np.where(begins_word, ids, space_id).tolist()
        self.later_ids = np.where(begins_word, UNKNOWN_ID, ids).tolist()

    def encode(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Tokenizes texts, words and spaces, to int32 arrays."""
        rows = [_WORD.findall(text.replace("\0", "")) for text in texts]
        word_pieces = iter(self.subwords.encode([*itertools.chain(*rows)]))
        encoded = []
        for row in rows:
            ids = []
            for pieces in itertools.islice(word_pieces, len(row)):
                # A word without pieces is a space, as is a padding id.
                first, *later = pieces[:-1].tolist() or [PAD_ID]
                ids.append(self.first_ids[first])
                ids += [self.later_ids[piece] for piece in later]
            encoded.append(np.array([*ids, END_ID], np.int32))
        return encoded
