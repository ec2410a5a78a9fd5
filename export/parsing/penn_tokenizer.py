"""Splits raw text into the words of treebanks, with nltk's tokenizer."""

import functools
import re

from nltk.tokenize import NLTKWordTokenizer

from export.parsing.trees import escape_brackets, remove_unicode_spaces

# Typographic quotation marks as the Penn Treebank writes them.
_QUOTES = str.maketrans({"“": "``", "”": "''", "‘": "`", "’": "'"})

# A hyphen within a word, or a slash.
_HYPHEN = re.compile(r"(?<=[^-/])(-)(?=[^-/])|(?<=.)(/)(?=.)")
# Affixes that are not split from their word by LDC2007T02's guidelines for
# hyphenated items, as far as CRAFT follows them.
_PREFIX = re.compile(
    "(?i)ante|anti|arch|auto|be|bi|bio|co|counter|cross|cyber|de|eco|ex|extra|"
    "hetero|homo|inter|intra|macro|mega|micro|mid|mini|multi|neo|non|over|pan|"
    "para|peri|post|pre|pro|pseudo|quasi|re|semi|sub|super|tri|ultra|un|uni|"
    "vice"
)
_SUFFIX = re.compile("(?i)esque|ette|fest|fold|gate|itis|less|most|wise")


def split_at_spaces(text):
    """Splits a sentence at ASCII white space, as `read_tree` does.

    Returns a list of str, with brackets as `escape_brackets` writes them; empty
    for blank text.
    """
    text = remove_unicode_spaces(text.replace("\0", ""))
    return [escape_brackets(word) for word in text.split()]


def penn_tokenize(text):
    """Splits a sentence of raw text as the Penn Treebank does.

    Punctuation becomes separate words, quotation marks `` and '', brackets
    -LRB- and -RRB-; contractions become two words (do n't, can not). Only a
    period at the end is split off: one line is one sentence. Returns a list of
    str.
    """
    words = _tokenizer().tokenize(text.translate(_QUOTES))
    return split_at_spaces(" ".join(words))


def ontonotes_tokenize(text):
    """Splits like `penn_tokenize`, and also at hyphens and slashes.

    English treebanks since OntoNotes, such as CRAFT, do so: "New York - based",
    "and / or"; words with certain prefixes are not split (non-zero).
    """
    return [part for word in penn_tokenize(text) for part in _parts(word)]


def tokenizer_for_tags(tags):
    """Returns the function that splits raw text as a treebank does.

    Hyphens are words in treebanks with the part-of-speech tag HYPH.
    """
    return ontonotes_tokenize if "HYPH" in tags else penn_tokenize


@functools.cache
def _tokenizer():
    return NLTKWordTokenizer()


def _parts(word):
    if re.fullmatch(r"-\w+-", word):
        return [word]
    first, *others = filter(None, _HYPHEN.split(word))
    parts = [first]
    for mark, part in zip(others[::2], others[1::2]):
        if mark == "-" and (
            _PREFIX.fullmatch(parts[-1]) or _SUFFIX.fullmatch(part)
        ):
            parts[-1] += mark + part
        else:
            parts += [mark, part]
    return parts
