"""Translation of lists of text."""

import random

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export import translator as module
from export.errors import InputError
from export.translator import Translation, Translator
from tests import made_up_text
from tests.export import tiny

TEXTS = made_up_text.sentences()[:20]


@pytest.fixture(scope="module")
def translations(translator):
    return translator.translate(TEXTS)


def close(one, other):
    """Equal texts, equal scores but for rounding."""
    assert [t.text for t in one] == [t.text for t in other]
    np.testing.assert_allclose(
        [t.score for t in one], [t.score for t in other], atol=1e-4
    )


def test_the_tiny_model_is_worth_comparing(translations):
    assert len({t.text for t in translations}) > 15
    assert all(np.isfinite(t.score) and t.score < 0 for t in translations)


def test_equals_the_search_run_eagerly_sentence_by_sentence(
    translator, translations
):
    expected = []
    for text in TEXTS[:4]:
        (ids,) = translator.tokenizer.encode([text])
        room = len(ids) + translator.model.config.max_output_extra
        tokens, scores, *_ = kt.translate_ids(
            translator.model, tf.constant([ids]), room
        )
        (decoded,) = translator.tokenizer.decode(tokens[:, 0])
        expected.append(Translation(decoded, float(scores[0, 0])))
    close(translations[:4], expected)


def test_order_is_kept_whatever_the_lengths(translator, translations):
    order = list(range(len(TEXTS)))
    random.Random(3).shuffle(order)
    shuffled = translator.translate([TEXTS[i] for i in order])
    close(shuffled, [translations[i] for i in order])


def test_alone_as_in_a_batch(translator, translations):
    for number in (0, 7, 19):
        close(translator.translate([TEXTS[number]]), [translations[number]])


def test_a_full_batch_and_one_more(translator):
    # Eight rows of eight ids are a batch of 64.
    texts = ["ba.", *["bi ka."] * 8, "ba."]
    found = translator.translate(texts)
    close(found[1:9], [found[1]] * 8)
    close(found[9:], found[:1])


def test_nothing_and_blanks(translator, translations):
    assert translator.translate([]) == []
    blank = Translation("", 0.0)
    texts = ["", TEXTS[0], " \t\n ", "\u3000", "\u200b", TEXTS[1], ""]
    found = translator.translate(texts)
    for place in (0, 2, 3, 4, 6):
        assert found[place] == blank
    close([found[1], found[5]], translations[:2])
    assert translator.translate([""]) == [blank]


def test_texts_may_come_in_any_sequence(translator, translations):
    close(translator.translate(tuple(TEXTS[:2])), translations[:2])
    close(translator.translate(iter(TEXTS[:2])), translations[:2])


def test_unknown_characters_are_translated_too(translator):
    (found,) = translator.translate(["\u6f22\u5b57 \U0001f600."])
    assert np.isfinite(found.score)
    assert found.score < 0


def test_an_over_long_source_is_cut(translator, monkeypatch):
    monkeypatch.setattr(module, "MAX_SOURCE_TOKENS", tiny.MAX_SOURCE_TOKENS)
    long = "ba bi " * 500
    (ids,) = translator.tokenizer.encode([long])
    assert len(ids) > 1000
    kept = np.append(ids[: tiny.MAX_SOURCE_TOKENS - 1], 3)[None]
    room = kept.shape[1] + translator.model.config.max_output_extra
    tokens, scores, *_ = kt.translate_ids(
        translator.model, tf.constant(kept, tf.int32), room
    )
    (text,) = translator.tokenizer.decode(tokens[:, 0])
    expected = Translation(text, float(scores[0, 0]))
    found = translator.translate([long, TEXTS[0], "ba bi " * 5000])
    close([found[0], found[2]], [expected, expected])
    close([found[1]], translator.translate([TEXTS[0]]))


def test_progress_counts_every_sentence_that_is_not_blank(translator):
    steps = []
    translator.translate([*TEXTS, "", " "], on_progress=steps.append)
    assert sum(steps) == len(TEXTS)
    assert len(steps) > 1


def test_one_graph_serves_every_shape(translator, translations):
    translator.translate(TEXTS[:3])
    translator.translate(TEXTS[3:17])
    assert translator._search.experimental_get_tracing_count() == 1


def test_a_directory_that_is_not_whole_is_refused(tmp_path):
    with pytest.raises(InputError, match=str(tmp_path)):
        Translator.from_directory(tmp_path)


def test_from_directory_has_the_directorys_model(model_path, translator):
    loaded = Translator.from_directory(model_path)
    assert loaded.model.config == translator.model.config
    assert loaded.tokenizer.proto == translator.tokenizer.proto
