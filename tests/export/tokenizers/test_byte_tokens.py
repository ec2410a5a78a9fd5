"""Byte tokens: every character survives both tokenizers."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.tokenizers.python_tokenizers import PythonTokenizer
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID
from tests import made_up_text

# SentencePiece writes "▁" for a space and Tokenizer drops NUL.
CHARACTERS = st.characters(
    exclude_categories=["Cs"], exclude_characters="\0\u2581"
)
UNITS = st.sampled_from(
    ["ba", "ka ", " ", "<0x41>", "<unk>", "</s>", "\u2585", "e\u0301", "\u200d"]
)
TEXTS = st.lists(UNITS | CHARACTERS, max_size=12).map("".join)
IDS = st.integers(0, 319)


@functools.cache
def tokenizers():
    proto = made_up_text.byte_vocabulary()
    return Tokenizer(proto), PythonTokenizer(proto)


@settings(max_examples=100)
@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_text_survives_encoding_and_decoding(texts):
    expected = [" ".join(filter(None, text.split(" "))) for text in texts]
    graph, python = tokenizers()
    rows = graph.encode(texts)
    assert [row.tolist() for row in rows] == [
        row.tolist() for row in python.encode(texts)
    ]
    for row, text in zip(rows, expected):
        assert UNKNOWN_ID not in row and row[-1] == END_ID
        assert graph.decode([row]) == python.decode([row]) == [text]


@settings(max_examples=100)
@given(st.lists(IDS | st.integers(4, 259), max_size=12))
def test_any_ids_become_the_same_text(ids):
    graph, python = tokenizers()
    (text,) = graph.decode([ids or [END_ID]])
    assert text == python.decode([ids or [END_ID]])[0]
    text.encode()


@pytest.mark.parametrize("length", range(1, 4))
def test_part_of_a_character_becomes_replacement_characters(length):
    for tokenizer in tokenizers():
        ids = tokenizer.encode(["ba \U0001f600"])[0][: length - 5]
        assert tokenizer.decode([ids])[0] == "ba " + "\ufffd" * length


def test_nul_is_dropped():
    for tokenizer in tokenizers():
        one, two = tokenizer.encode(["ba\0ka", "baka"])
        np.testing.assert_array_equal(one, two)
