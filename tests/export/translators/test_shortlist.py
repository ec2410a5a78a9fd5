"""Shortlists: the file, and translations by it."""

import collections
import gzip

import numpy as np
import pytest

from export.common.errors import InputError
from export.serving.served_translator import ServedTranslator
from export.translators import shortlist
from export.translators.load import load_translator
from export.translators.text_ids import padded
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

TEXTS = [*made_up_text.sentences()[:5], ""]
SIZE = 40


@pytest.fixture(scope="module")
def path(translator, tmp_path_factory):
    made = tmp_path_factory.mktemp("lex") / "lex.gz"
    text = made_up_shortlist(translator.tokenizer)
    made.write_bytes(gzip.compress(text.encode()))
    return made


@pytest.fixture(scope="module")
def held(translator, path):
    config = translator.model.config
    return shortlist.read_shortlist(path, translator.tokenizer, config, SIZE)


@pytest.fixture(scope="module")
def limited(translator, held):
    return Translator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=tiny.MAX_SOURCE_TOKENS,
        shortlist=held,
    )


def expected_list(translator, path, text, size=SIZE):
    """What the file says of a sentence, added up line by line."""
    tokenizer = translator.tokenizer
    ids = tokenizer.encode([text])[0]
    said = collections.Counter(map(tokenizer.id_to_piece, ids.tolist()))
    score = collections.Counter()
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        target, source, probability = line.split(" ")
        times = 1 if source == "NULL" else said[source]
        score[target] += times * float(probability)
    for piece, times in said.items():
        score[piece] += times * 0.01
    names = [tokenizer.id_to_piece(number) for number in range(200)]
    best = sorted(range(4, 200), key=lambda each: (-score[names[each]], each))
    return sorted([0, 1, 2, 3, *best[: size - 4]])


def test_a_sentences_list_is_what_the_file_says(translator, path, held):
    source = padded(translator.tokenizer.encode(TEXTS))
    found = np.asarray(held.ids(source))
    for row, text in zip(found, TEXTS):
        assert row.tolist() == expected_list(translator, path, text)


def test_translations_have_the_lists_pieces_alone(limited, translator, held):
    for pair in limited.best_ids(TEXTS[:-1]):
        own = np.asarray(held.ids(pair.source[None]))[0]
        assert set(pair.target.tolist()) <= {*own.tolist()}
    said = [each.text for each in limited.translate(TEXTS)]
    assert said != [each.text for each in translator.translate(TEXTS)]
    # Alone each is what it is among others.
    for text, expected in zip(TEXTS, said):
        assert limited.translate([text])[0].text == expected


def test_what_is_served_says_the_same(limited, translator, held):
    expected = limited.align(TEXTS)
    served = ServedTranslator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=tiny.MAX_SOURCE_TOKENS,
        shortlist=held,
    )
    assert served.limits()["shortlist"] == SIZE
    found = served.align(TEXTS)
    texts = [text.decode() for text in found["translation"].numpy()]
    assert texts == [each.text for each in expected]
    scores = [each.score for each in expected]
    np.testing.assert_allclose(found["score"], scores, rtol=1e-4)


@pytest.mark.slow
def test_what_is_compiled_says_the_same(limited, translator, held):
    expected = limited.translate(TEXTS[:1])[0]
    compiled = Translator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=tiny.MAX_SOURCE_TOKENS,
        compiled=True,
        shortlist=held,
    )
    one = compiled.translate(TEXTS[:1])[0]
    assert one.text == expected.text
    assert one.score == pytest.approx(expected.score, rel=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Cannot read"),
        ("", "There is nothing in"),
        ("a b\n", "Line 1 of .* is not a target piece, a source"),
        ("a b x\n", "Line 1 of .* is not a target piece, a source"),
        ("a a nan\n", "Line 1 of .* is not a target piece, a source"),
        ("a a 0.5\na a 1.5\n", "Line 2 of .* is not a target piece"),
        ("a \u4e2d\u4e2d 0.5\n", "Line 1 of .* is no piece of the model"),
    ],
)
def test_what_is_no_shortlist_is_refused(
    translator, tmp_path, content, message
):
    written = tmp_path / "lex"
    if content is not None:
        written.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        shortlist.read_shortlist(
            written, translator.tokenizer, translator.model.config, SIZE
        )


@pytest.mark.parametrize(
    ("search", "wanted", "message"),
    [
        ({"shortlist_size": 9}, [], "add --shortlist"),
        ({"shortlist": "x", "target_pieces": ["y"]}, [], "leave out one"),
        ({"shortlist": "x"}, ["prefixes"], "--shortlist says which"),
        ({"shortlist": "x", "shortlist_size": 200}, [], "leaves none out"),
    ],
)
def test_flags_that_do_not_go_together(model_path, search, wanted, message):
    with pytest.raises(InputError, match=message):
        load_translator([model_path], 64, search, wanted)
