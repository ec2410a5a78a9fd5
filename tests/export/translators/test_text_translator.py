"""What every translator of texts takes, and alignments of words."""

import numpy as np
import pytest

from export.attention_views.reader import AttentionReader
from export.common.errors import InputError
from export.loading import load_translator
from export.translators.batches import validate_texts
from export.translators.signature_backend import SignatureBackend
from export.translators.translation import (
    word_alignment,
    word_log_probs,
)
from export.translators.translator import Translator

# "the black cat", its end and padding; "le chat noir" and its end.
SOURCE = np.array([0, 1, 1, 2, -1, -1])
TARGET = np.array([0, 1, 1, 2, -1])
NO_WORDS = np.array([-1, -1])


def links(columns, source=SOURCE, target=TARGET, last=0):
    """Of target tokens that attend to these source tokens."""
    weights = np.full((len(target), len(source)), 0.1)
    weights[np.arange(len(columns)), columns] = 0.5
    # More to the end and to padding than to any other token but these.
    weights[:, source < 0] += 0.2
    source, target = (np.stack([each, each], 1) for each in (source, target))
    source[:, 1] += last * (source[:, 1] >= 0)
    return word_alignment(source, target, weights)


def test_tokens_become_words():
    assert links((0, 3, 3, 2, 4)) == ((0, 0), (1, 2), (2, 1))
    # A link is named once, and a word may have two.
    assert links((1, 2, 3, 0, 0)) == ((0, 2), (1, 0), (1, 1), (2, 1))
    # The end and padding are no words.
    assert links((4, 5, 5, 4, 0)) == ((0, 0), (0, 1), (0, 2))


def test_a_token_of_two_words_links_both_and_no_words_none():
    found = links((0, 0), np.array([0, 2]), np.array([0, 1]), last=1)
    assert found == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert links((0, 1), NO_WORDS, TARGET) == ()
    assert links((0, 1), SOURCE, NO_WORDS) == ()
    empty = np.zeros((0, 2), np.int32)
    assert word_alignment(empty, empty, np.zeros((0, 0))) == ()


def test_a_word_has_the_log_probability_of_its_tokens():
    log_probs = -np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    spans = np.stack([TARGET, TARGET], axis=1)
    assert word_log_probs(spans, log_probs) == (-1.0, -6.0, -8.0)
    # A token of two words counts for both.
    spans[0, 1] = 1
    assert word_log_probs(spans, log_probs) == (-1.0, -7.0, -8.0)
    assert word_log_probs(np.full((2, 2), -1), log_probs) == ()


def test_the_path_of_an_export_may_be_text(tmp_path):
    with pytest.raises(InputError, match="an export"):
        load_translator(str(tmp_path))


def test_what_is_no_list_of_texts_is_refused(translator):
    for texts in ("ba ka", b"ba", ["ba", None], ["ba", "a\ud800"]):
        with pytest.raises(InputError):
            validate_texts(texts)
    two = ["ba", "ba"]
    # Not loaded: texts are refused before.
    exported = Translator(SignatureBackend(None, {"lengths": None}))
    reader = AttentionReader(translator)
    for refused in (
        *(translator.translate, translator.normalize_prefixes),
        *(exported.translate, exported.sentences, reader.read),
        lambda texts: translator.score(two, texts),
        lambda texts: translator.translate(two, None, texts),
        lambda texts: exported.score(texts, two),
        lambda texts: reader.read(two, texts),
    ):
        with pytest.raises(InputError):
            refused("ba")
    for texts in (two, tuple(two), iter(two), np.array(two)):
        assert validate_texts(texts) == two
    with pytest.raises(TypeError):
        translator.tokenizer.encode("ba")
