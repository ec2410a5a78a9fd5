"""Which word each token is of, and the states of the next one."""

import numpy as np

from keras_transformer.layers.words import (
    SourceWords,
    says_word,
    source_words,
    words_said,
)
from tests.keras_transformer import helpers

# Source ids from 7 on begin a word, target ids from 8 on say one.
CONFIG = helpers.config(
    positions="next-word", source_words_from=7, target_words_from=8
)
# A word of two pieces, one of one, the end, padding.
SOURCE = np.array([[7, 4, 9, 3, 0]], "int32")


def of_config(function, ids, positions=None):
    if positions is not None:
        positions = np.array([positions], "int32")
    ids = np.array([ids], "int32")
    return helpers.to_numpy(function(CONFIG, ids, positions))[0].tolist()


def test_the_words_of_a_source_and_its_end_are_numbered():
    assert of_config(source_words, [7, 4, 9, 3, 0]) == [0, 0, 1, 2, 2]
    # Padding before any word, or pieces without one, are of the first.
    assert of_config(source_words, [4, 9, 9]) == [0, 0, 1]


def test_what_has_been_said_is_counted_with_its_own_token():
    assert of_config(words_said, [2, 5, 8, 5, 9, 3]) == [0, 0, 1, 1, 2, 2]
    assert says_word(CONFIG, np.array([7, 8])).tolist() == [False, True]


def test_each_sentence_of_a_packed_row_begins_anew():
    positions = [0, 1, 2, 0, 1, 2]
    ids = [7, 9, 3, 8, 4, 3]
    assert of_config(source_words, ids, positions) == [0, 1, 2, 0, 0, 1]
    assert of_config(words_said, [8, 5, 9, 2, 8, 8], positions) == [
        *(1, 1, 2),
        *(0, 1, 2),
    ]


def test_a_config_that_counts_no_words_has_none():
    for function in (source_words, words_said):
        assert function(helpers.config(), SOURCE) is None
    words = helpers.config(
        positions="words", source_words_from=7, target_words_from=8
    )
    assert SourceWords.of(words, None, SOURCE, None) == ()


def test_the_next_words_states_are_the_mean_over_its_pieces():
    memory = np.array([[[2, 0], [4, 2], [10, 0], [7, 7], [99, 99]]], "float32")
    found = SourceWords.of(CONFIG, memory, SOURCE, SOURCE[:, None] != 0)
    said = np.array([[0, 1, 1, 2, 3]], "int32")
    expected = [[3, 1], [10, 0], [10, 0], [7, 7], [0, 0]]
    np.testing.assert_allclose(helpers.to_numpy(found.after(said))[0], expected)
