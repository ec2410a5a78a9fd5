"""A tokenizer.json makes the ids that SentencePiece makes."""

import functools
import json
import re

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from export.common.errors import InputError
from export.onnx.tokenizer_json import make_tokenizer_json
from export.tokenizers.letter_case import CASE_MARKS, character_class
from export.tokenizers.python_tokenizers import (
    PythonTokenizer,
    find_tags,
    load_python_tokenizers,
    make_tagged_vocabulary,
    split_vocabulary,
)
from keras_transformer.config import UNKNOWN_ID
from tests import made_up_text
from tests.export import odd_vocabularies
from trainers.data.vocabulary import train_vocabulary

WORDS = " ".join(made_up_text.sentences()).split()
OTHER = "aé ﬁ½…ﾊﾟＡ\u0301\u00a0\u200b\u3000\t\n\u0000\u0085\u2028<é\ud55c🙂"
TEXTS = st.lists(
    st.sampled_from([*WORDS, *OTHER, "  "])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=8,
).map(" ".join) | st.text(st.sampled_from([*"abdeiko. ", *OTHER]), max_size=12)

GRAPHEME_PARTS = re.compile(
    f"[{character_class('M.')}\r\u1100-\u11ff\u200c\u200d\uff9e\uff9f]"
)


@functools.cache
def proto(name):
    if name == "nmt_nfkc":
        return made_up_text.vocabulary()
    if name == "bytes":
        return made_up_text.byte_vocabulary()
    if name == "unigram":
        options = {"model_type": "unigram", "vocab_size": 100}
        return odd_vocabularies.trained(made_up_text.sentences(), **options)
    if name == "marks":
        lines = [*made_up_text.sentences(), *["ba ka"] * 3]
        return train_vocabulary(lines, 200, tags=CASE_MARKS)
    return train_vocabulary(made_up_text.sentences(), 200, normalization=name)


@functools.cache
def pair(name):
    """Returns the two tokenizers."""
    text = json.dumps(make_tokenizer_json(proto(name)))
    return tokenizers.Tokenizer.from_str(text), PythonTokenizer(proto(name))


@pytest.mark.parametrize(
    "name", ["nmt_nfkc", "nmt_nfc", "identity", "bytes", "unigram"]
)
@given(text=TEXTS)
@example(" \u2581a\u2581 ")
@example("")
@example(" ")
def test_ids_are_those_of_sentencepiece(name, text):
    made, original = pair(name)
    if name in ("nmt_nfkc", "unigram"):
        # The package applies a charsmap to a whole grapheme at once.
        text = GRAPHEME_PARTS.sub("", text)
    ids = original.ids(text)
    assert made.encode(text).ids == ids
    # SentencePiece has a sign for the unknown token.
    known = [each for each in ids if each != UNKNOWN_ID]
    assert made.decode(known) == original.text(known)


def test_capitals_are_kept_and_marks_dropped():
    made, original = pair("marks")
    upper, title = CASE_MARKS
    text = "ba ka BA"
    ids = made.encode(text).ids
    assert ids == original.ids(text)
    # SentencePiece's text would begin with a mark and be in small letters.
    assert original.ids(text.upper()) != made.encode(text.upper()).ids
    assert made.encode(f"{upper} ba {title}ka BA").ids == ids
    marked = original.ids("BA KA")
    assert original.id_to_token(marked[0]) == f"\u2581{upper}"
    assert original.text(marked) == "BA KA"
    assert made.decode(marked) == "ba ka"


@pytest.mark.parametrize("text", ["ba ka.", "  ba"])
@pytest.mark.parametrize("spaces", ["", " ", "\n  "])
def test_tags_are_those_of_the_model(text, spaces):
    # A line feed is text there.
    proto = train_vocabulary(
        made_up_text.sentences(),
        200,
        normalization="identity",
        tags=[">>de<<", ">>fr<<"],
    )
    vocabulary = make_tagged_vocabulary(proto, 1)
    source, _ = split_vocabulary(vocabulary)
    made = tokenizers.Tokenizer.from_str(
        json.dumps(make_tokenizer_json(source))
    )
    original = load_python_tokenizers(vocabulary).source
    for code, number in find_tags(source).items():
        ids = made.encode(f"{spaces}>>{code}<<{spaces}{text}").ids
        assert ids == original.ids(f"{spaces}>>{code}<<{spaces}{text}")
        assert ids[0] == number


@pytest.mark.parametrize(
    "name",
    [
        "nfkc_cf",
        "custom",
        "suffix",
        "lossless",
        "char",
        "across_words",
        "user_symbols",
    ],
)
def test_other_vocabularies_are_refused(name):
    with pytest.raises(InputError):
        make_tokenizer_json(odd_vocabularies.proto(name))


def test_byte_tokens_of_unigram_are_refused():
    options = {"model_type": "unigram", "vocab_size": 420}
    lines = made_up_text.sentences()
    make_tokenizer_json(odd_vocabularies.trained(lines, **options))
    with pytest.raises(InputError, match="byte tokens"):
        make_tokenizer_json(
            odd_vocabularies.trained(lines, byte_fallback=True, **options)
        )


@pytest.mark.parametrize("side", [0, 1])
def test_imported_vocabularies_are_refused(side):
    proto = split_vocabulary(odd_vocabularies.pair())[side]
    with pytest.raises(InputError, match="imported"):
        make_tokenizer_json(proto)
