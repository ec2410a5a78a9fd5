"""Raw text as the words of treebanks, and words as ids that count them."""

import string
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.parsing import word_tokenizer
from export.parsing.trees import remove_unicode_spaces
from export.parsing.word_tokenizer import (
    WordTokenizer,
    ontonotes_tokenize,
    penn_tokenize,
    split_at_spaces,
)
from export.serving.served_parser import GraphWordTokenizer
from export.tokenizers.python_tokenizers import load_python_tokenizers
from trainers.data.vocabulary import train_vocabulary

END = 3
SENTENCES = [
    "The protein binds to DNA .",
    "Expression of BMP-4 was not seen in -LRB- 12 -RRB- of 20 embryos .",
    "½ of α-actin and H2O2 , at 37 °C , binds .",
    "the cells divide and the cell dies",
] * 30
# Penn words are those of Robert MacIntyre's script for the Penn Treebank.
PENN = """
He said, "The protein binds to DNA (see Fig. 2)."
He said , `` The protein binds to DNA -LRB- see Fig. 2 -RRB- . ''
It cannot bind; we can't say it's John's.
It can not bind ; we ca n't say it 's John 's .
At 3.14, or 1,000 in U.S. dollars, 10% of $5.
At 3.14 , or 1,000 in U.S. dollars , 10 % of $ 5 .
“I don’t,” he said.
`` I do n't , '' he said .
-LRB- given -RRB- [a]
-LRB- given -RRB- [ a ]
It ends. It begins.
It ends. It begins .
"""
ONTONOTES = """
New York-based
New York - based
A/J and -/- mice
A / J and - / - mice
non-zero, anti-BMP-4, 2-fold
non-zero , anti-BMP - 4 , 2-fold
T-fork (x) -- or
T - fork -LRB- x -RRB- -- or
- -a a- /
- -a a- /
http://a.b
http : / / a.b
"""


def test_text_is_split_into_words():
    for split, lines in (
        (penn_tokenize, PENN.strip().split("\n")),
        (ontonotes_tokenize, ONTONOTES.strip().split("\n")),
        (penn_tokenize, ["a\u00a0b\u2028c\0", "a b c", " \u2009 \0", ""]),
        (split_at_spaces, [" (a\tb)\u2009c\0 [d] ", "-LRB-a b-RRB-c [d]"]),
        (split_at_spaces, ["cannot\n", "cannot", "\0 \u2009", ""]),
    ):
        for text, words in zip(lines[::2], lines[1::2], strict=True):
            assert " ".join(split(text)) == words


@settings(max_examples=50)
@given(st.text(st.sampled_from("ab1 -/().,'`\"’“$\u2009\0")) | st.text())
def test_splitting_words_again_changes_nothing(text):
    for split in (split_at_spaces, penn_tokenize, ontonotes_tokenize):
        words = split(text)
        assert split_at_spaces(" ".join(words)) == words
        assert not any({"(", ")"} & set(word) for word in words)
        assert bool(words) == bool(split_at_spaces(text))


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(train_vocabulary(iter(SENTENCES), 90, "½°α"))


def _ids_of_word(tokenizer, word):
    """The ids of one word, by SentencePiece's own library."""
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.subwords.proto
    )
    names = [processor.IdToPiece(n) for n in range(len(processor))]
    order = sorted(names, key=lambda name: name.startswith("▁"))
    pieces = processor.EncodeAsPieces(word) or ["▁"]
    first, *others = (each if each in names else "<unk>" for each in pieces)
    later = ["<unk>" if each.startswith("▁") else each for each in others]
    return [order.index(each) for each in [first, *later]]


def test_ids_are_those_of_sentencepiece_in_another_order(tokenizer):
    texts = [*SENTENCES[:4], "", " \t "]
    together = tokenizer.encode(texts)
    # A global seed must not drop the pieces.
    tf.random.set_seed(3)
    for text, ids in zip(texts, together):
        expected = [
            number
            for word in text.split()
            for number in _ids_of_word(tokenizer, word)
        ]
        assert ids.dtype == np.int32
        assert ids.tolist() == [*expected, END]
        np.testing.assert_array_equal(tokenizer.encode([text])[0], ids)


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)))
def test_each_word_begins_once(tokenizer, words):
    text = " ".join(words)
    (ids,) = tokenizer.encode([text])
    # TensorFlow splits at ASCII white space.
    count = len(text.replace("\0", "").encode().split())
    assert (ids >= tokenizer.first_word_id).sum() == count
    assert ids[-1] == END and END not in ids[:-1]
    # The first piece of a sentence begins its first word.
    assert not count or ids[0] >= tokenizer.first_word_id


@pytest.fixture(scope="module")
def python_tokenizer(tokenizer):
    """As on JAX."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_tokenizer, "load_tokenizer", load_python_tokenizers)
        return WordTokenizer(tokenizer.subwords.proto)


UNITS = ["cell", "½", "BMP-4", *"\u2581() \0\t\x1c\x85\u2009\u200b\ufb01\u2026"]


@settings(max_examples=100)
@given(
    st.lists(
        st.lists(
            st.sampled_from(UNITS) | st.characters(exclude_categories=["Cs"])
        ).map("".join),
        min_size=1,
    )
)
def test_ids_are_the_same_without_tensorflow_and_in_a_graph(
    tokenizer, python_tokenizer, texts
):
    expected = [ids.tolist() for ids in tokenizer.encode(texts)]
    assert [ids.tolist() for ids in python_tokenizer.encode(texts)] == expected
    graph = GraphWordTokenizer(tokenizer)
    words = graph.split(tf.constant(texts))
    rows = [*map(split_at_spaces, texts)]
    assert [[word.decode() for word in row] for row in words.to_list()] == rows
    for ids, row in zip(graph.encode(words).to_list(), rows):
        (expected,) = python_tokenizer.encode([" ".join(row)])
        assert ids == expected.tolist()


def test_all_white_space_is_ascii_or_removed():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    remaining = remove_unicode_spaces(everything)
    assert [each for each in remaining if each.isspace()] == sorted(
        string.whitespace
    )
