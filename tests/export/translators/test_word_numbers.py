"""Words of tokens, against the offsets of SentencePiece's own library."""

import functools
import re

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.python_tokenizers import OPUS_MT
from export.translators.batches import pad_ids
from export.translators.text_ops import source_word_spans, target_word_spans
from keras_transformer.config import END_ID
from tests.export import odd_vocabularies

UNITS = [
    *"abdk.,  \t\n\u3000\u00a0\u200b\x1c\x85\x00\x07\u2028\u2581",
    *("ba", "ba ka", " ka", "e\u0301", "\u00b4", "\ufb01", "\u6f22", "\ufeff"),
    *("\U0001f600", "\u2026", "\u3002", "</s>", "<unk>", ">>fra<<", "<b>"),
]
TEXTS = st.lists(
    st.lists(
        st.sampled_from(UNITS) | st.characters(exclude_categories=["Cs"])
    ).map("".join),
    min_size=1,
    max_size=8,
)
EVERY = {
    **dict.fromkeys(odd_vocabularies.OPTIONS, odd_vocabularies.proto),
    "": odd_vocabularies.pair,
    OPUS_MT: odd_vocabularies.pair,
}


@functools.cache
def tokenizer(name):
    return load_tokenizer(EVERY[name](name))


def ranges(tokenizer, texts, limit=512):
    ids = pad_ids([row[:limit] for row in tokenizer.encode(texts)])
    found = source_word_spans(tokenizer, tf.constant(texts), ids, limit).numpy()
    assert (found[(ids == 0) | (ids == END_ID)] == -1).all()
    return [
        words[: (row > END_ID).sum() + (row == 1).sum()].tolist()
        for words, row in zip(found, ids)
    ]


def covered(words):
    return {n for first, last in words for n in range(first, last + 1)}


@pytest.mark.parametrize("name", odd_vocabularies.OPTIONS)
@settings(max_examples=10)
@given(texts=TEXTS)
def test_a_tokens_words_are_those_of_its_surface(name, texts):
    texts = [text.replace("\x00", "") for text in texts]
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=odd_vocabularies.proto(name)
    )

    @functools.cache
    def is_visible(character):
        alone = "".join(processor.encode(character, out_type=str))
        return bool(alone.strip("\u2581 ")) and not character.isspace()

    for text, words in zip(texts, ranges(tokenizer(name), texts)):
        # The bytes of the visible characters of each word.
        offsets = [
            [
                len(text[:index].encode())
                for index in range(*match.span())
                if is_visible(text[index])
            ]
            for match in re.finditer(r"\S+", text)
        ]
        pieces = processor.encode(text, return_type="proto").pieces
        for piece, (first, last) in zip(pieces, words, strict=True):
            touched = {
                number
                for number, word in enumerate(offsets)
                if any(piece.begin <= offset < piece.end for offset in word)
            }
            if touched:
                assert {first, last} <= touched, (text, piece)


@pytest.mark.parametrize("name", ["suffix", "lossless", "bytes", OPUS_MT])
@settings(max_examples=10)
@given(data=st.data())
def test_generated_tokens_cover_the_words_of_their_text(name, data):
    target = tokenizer(name).target
    row = st.lists(st.integers(4, target.vocabulary_size - 1), max_size=12)
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    ids = pad_ids([np.array([*each, END_ID]) for each in rows])
    texts = target.decode(ids)
    for text, words, row in zip(
        texts, target_word_spans(target, ids).numpy(), rows
    ):
        assert (words[len(row) :] == -1).all()
        assert covered(words[: len(row)].tolist()) - {-1} == set(
            range(len(text.split()))
        ), (text, row)
        assert not (name == "suffix" and text.endswith(" "))


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("", ">>fra<<\u4f60\u597d \u4e16\u754c", [0, 0, 1]),
        ("", " >>fra<< \u4f60\u597d \u4e16\u754c", [0, 1, 2]),
        (OPUS_MT, ">>deu<<\u4f60\u3002\u4e16\x07 \u4e16\u754c", [0, 0, 1]),
        ("nmt_nfkc", "a \x00 b\x00 \u200b \ufb01 \u00b4k", [0, 2, 4, 5]),
        ("custom", "kd d b a ba", [0, 2, 3, 4]),
        ("suffix", "ba ka.  do", [0, 1, 2]),
    ],
)
def test_words_are_those_of_the_text_as_it_was_given(name, text, expected):
    (words,) = ranges(tokenizer(name).source, [text])
    assert sorted(covered(words)) == sorted(set(expected))
    assert words[0][0] == expected[0]


def test_of_a_truncated_text_the_beginning_is_numbered():
    for name in ("nmt_nfkc", "suffix"):
        (words,) = ranges(tokenizer(name), ["ba ka " * 900], 5)
        (whole,) = ranges(tokenizer(name), ["ba ka " * 4])
        assert words[:4] == whole[:4]
    assert ranges(tokenizer("char"), ["", " \u3000"]) == [[], []]
    empty = tf.zeros([2, 0], tf.int32)
    assert target_word_spans(tokenizer("char"), empty).shape == (2, 0, 2)
