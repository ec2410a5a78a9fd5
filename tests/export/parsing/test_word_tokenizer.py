"""The words of a sentence can be counted in its ids."""

import string
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.parsing.trees import escape_brackets, remove_unicode_spaces
from export.parsing.word_tokenizer import WordTokenizer
from trainers.data.vocabulary import train_vocabulary

END = 3
SENTENCES = [
    "The protein binds to DNA .",
    "Expression of BMP-4 was not seen in -LRB- 12 -RRB- of 20 embryos .",
    "½ of α-actin and H2O2 , at 37 °C , binds .",
    "the cells divide and the cell dies",
] * 30


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(train_vocabulary(iter(SENTENCES), 90, "½°α"))


def _ids_of_word(tokenizer, word):
    """The ids of one word, by SentencePiece's own library."""
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.subwords.proto
    )
    names = [processor.IdToPiece(n) for n in range(len(processor))]
    order = sorted(
        range(len(names)), key=lambda n: (names[n].startswith("▁"), n)
    )
    found = processor.EncodeAsPieces(word) or ["▁"]
    known = [each if each in names else "<unk>" for each in found]
    first, *others = known
    later = ["<unk>" if each.startswith("▁") else each for each in others]
    return [order.index(names.index(each)) for each in [first, *later]]


def test_ids_are_those_of_sentencepiece_in_another_order(tokenizer):
    texts = [*SENTENCES[:4], "", " \t "]
    together = tokenizer.encode(texts)
    for text, ids in zip(texts, together):
        expected = [
            number
            for word in text.split()
            for number in _ids_of_word(tokenizer, word)
        ]
        assert ids.dtype == np.int32
        assert ids.tolist() == [*expected, END]
        np.testing.assert_array_equal(tokenizer.encode([text])[0], ids)
    # A global seed must not drop the pieces.
    tf.random.set_seed(3)
    for one, other in zip(together, tokenizer.encode(texts)):
        np.testing.assert_array_equal(one, other)


def _count(tokenizer, ids):
    return int((np.array(ids) >= tokenizer.first_word_id).sum())


@settings(max_examples=300)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)))
def test_each_word_begins_once(tokenizer, words):
    text = " ".join(words)
    (ids,), (count,) = tokenizer.tokenize(tf.constant([text]))
    readable = text.replace("\0", "").encode()
    assert int(count) == len(readable.split())
    ids = ids.numpy()
    assert _count(tokenizer, ids) == int(count)
    assert ids[-1] == END and END not in ids[:-1]
    assert ids.min() > 0
    # The first piece of a sentence begins its first word.
    assert not count or ids[0] >= tokenizer.first_word_id


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_words_are_those_of_a_tree(tokenizer, text):
    """In a graph as in Python, character by character."""
    text += "a( \u00a0b)\x1cc\u3000\td\u200be"
    (found,) = tokenizer.split_words(tf.constant([text])).to_list()
    expected = remove_unicode_spaces(text.replace("\0", "")).split()
    assert [word.decode() for word in found] == list(
        map(escape_brackets, expected)
    )


def test_all_white_space_is_ascii_or_odd():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = remove_unicode_spaces(everything)
    assert [each for each in left if each.isspace()] == sorted(
        string.whitespace
    )
