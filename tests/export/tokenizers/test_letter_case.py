"""Capitals as marks and small letters, in both kinds of tokenizers."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.serving.served_translator import ServedTranslator
from export.terms.terms import Terms
from export.tokenizers.letter_case import (
    CASE_MARKS,
    TITLE_MARK,
    UPPER_MARK,
    mark_case,
    restore_case,
)
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import tiny
from trainers.data.vocabulary import train_vocabulary

SENTENCES = made_up_text.sentences()
VOCABULARY = train_vocabulary(SENTENCES, 210, tags=CASE_MARKS)
BYTES = train_vocabulary(
    SENTENCES,
    330,
    normalization="identity",
    byte_fallback=True,
    tags=CASE_MARKS,
)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("THE STATION, 5 P.M.", f"{UPPER_MARK} the station, 5 p.m."),
        ("L'ÉTÉ", f"{UPPER_MARK} l'été"),
        ("OK", f"{UPPER_MARK} ok"),
        ("STRASSE", f"{UPPER_MARK} strasse"),
        ("你好 OK", f"{UPPER_MARK} 你好 ok"),
        ("Where Is «The Station» ?", f"{TITLE_MARK} where is «the station» ?"),
        ("18 Men 4 Here (Now)", f"{TITLE_MARK} 18 men 4 here (now)"),
        ("A", "A"),
        ("Tom Jackson", "Tom Jackson"),
        ("McDonald Had A Farm", "McDonald Had A Farm"),
        ("GO TO https://x.org!", f"{UPPER_MARK} go to https://x.org!"),
        ("HI %s, {name}\u00a0!", f"{UPPER_MARK} hi %s, {{name}}\u00a0!"),
        ("HI a@b.org \\n", f"{UPPER_MARK} hi a@b.org \\n"),
        ("A B", f"{UPPER_MARK} a b"),
        ("Q & A", f"{UPPER_MARK} q & a"),
        ("GO TO https://x.org/A", "GO TO https://x.org/A"),
        ("HELLO {NAME}", "HELLO {NAME}"),
        ("USE MAX_SIZE, 5%", "USE MAX_SIZE, 5%"),
        ("HELLO {Name}", "HELLO {Name}"),
        ("HELLO to", "HELLO to"),
        ("%d", "%d"),
        ("The Lord of the Rings", "The Lord of the Rings"),
        ("你好。", "你好。"),
        ("", ""),
    ],
)
def test_which_texts_are_marked(text, marked):
    assert mark_case(text, lambda text: False) == marked
    assert mark_case(text, lambda text: True) == text
    assert restore_case(marked) == text


@settings(max_examples=300)
@given(st.lists(st.text("aB cÉé5 ßİΣ.'-/@\t\ufdd0语"), max_size=8))
def test_graphs_and_python_agree(texts):
    tokenizer = Tokenizer(BYTES)
    python = load_python_tokenizers(BYTES).source
    # Of few texts, `encode` would mark capitals in Python.
    marked = tokenizer.mark_case(
        tokenizer.clean_text(tf.constant(texts, "string"))
    )
    assert [each.decode() for each in marked.numpy()] == [
        mark_case(text, lambda text: False) for text in texts
    ]
    rows = tokenizer.encode(texts)
    assert [row.tolist() for row in rows] == [
        python.ids(each) for each in texts
    ]
    for row in rows:
        assert tokenizer.decode([row]) == [python.text(row.tolist())]


@given(st.text("ABCÉ .5", max_size=20), st.booleans())
def test_marked_text_comes_back(text, is_title):
    text = " ".join(text.split())
    if is_title:
        text = " ".join(each.capitalize() for each in text.split())
    tokenizer = Tokenizer(BYTES)
    assert tokenizer.decode([tokenizer.encode([text])[0]]) == [text]


def test_an_acronym_that_is_a_token_stays():
    sentences = [f"NATO {each}" for each in SENTENCES]
    proto = train_vocabulary(sentences, 230, tags=CASE_MARKS)
    for texts, count in ((["NATO"], 1), (["NATO NATO"], 0)):
        tokenizer, python = Tokenizer(proto), load_python_tokenizers(proto)
        (ids,) = tokenizer.encode(texts)
        assert ids.tolist() == python.source.ids(texts[0])
        (graph_ids,) = tokenizer.tokenize(tokenizer.mark_case(texts)).numpy()
        assert graph_ids.tolist() == ids.tolist()
        assert [tokenizer.id_to_token(i) for i in ids].count("▁NATO") == count


@pytest.mark.parametrize("end", ["", " a", "a", " 5%"])
@pytest.mark.parametrize(
    "part", ["A", "5% ", "{} ", "A a@ ", "Ab ", "5 ", "a@"]
)
def test_long_texts_take_linear_time(part, end):
    """Of a million characters; a pattern that backtracks would not return."""
    mark_case(part * (10**6 // len(part)) + end, lambda text: False)


def test_vocabularies_without_marks_change_nothing():
    plain = Tokenizer(made_up_text.byte_vocabulary())
    (ids,) = plain.encode([SENTENCES[0].upper()])
    assert plain.decode([ids]) == [SENTENCES[0].upper()]
    assert len(ids) > len(plain.encode(SENTENCES[:1])[0]) + 3


@pytest.fixture(scope="module")
def translator():
    model = tiny.model(vocabulary_size=210)
    return Translator.from_model(model, Tokenizer(VOCABULARY))


TEXTS = [SENTENCES[0].upper(), SENTENCES[1].title(), *SENTENCES[:3], ""]


def test_exports_and_alignments_have_the_same_words(translator):
    served = ServedTranslator(translator.model, translator.tokenizer)
    translations = translator.align(TEXTS)
    aligned = served.align(tf.constant(TEXTS))
    texts = [each.decode() for each in aligned["translation"].numpy()]
    assert texts == [each.text for each in translations]
    # Only marks are of no word of their own.
    for text, words in zip(TEXTS[:-1], aligned["source_words"].numpy()):
        assert words.max() == len(text.split()) - 1
    for text, words in zip(texts[:-1], aligned["target_words"].numpy()):
        assert words.max() == len(text.split()) - 1
    scores = served.score(tf.constant(TEXTS), tf.constant(texts))["score"]
    expected = translator.score(TEXTS, texts)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_terms_are_not_marked():
    """Alone, "NATO" would be a text in capitals."""
    model = tiny.model(vocabulary_size=330, max_extra_tokens=20)
    translator = Translator.from_model(model, Tokenizer(BYTES))
    word, other = SENTENCES[5].split()[0], SENTENCES[2]
    terms = Terms([(word, "NATO")])
    found, capitals = translator.translate(
        [f"{word} {other}", f"{word} {other}".upper()], terms=terms
    )
    assert "NATO" in found.text
    assert capitals.text.isupper() == ("NATO" in capitals.text)
