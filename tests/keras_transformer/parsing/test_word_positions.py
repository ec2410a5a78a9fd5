"""Which word each token belongs to, and the states of the next word."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.parsing.parser_transformer import (
    WordStates,
    count_emitted_words,
    number_source_words,
)
from tests.keras_transformer import helpers

# Source ids from 7 on begin a word, target ids from 8 on tag one.
CONFIG = helpers.config(
    positions="next-word", first_source_word_id=7, first_target_word_id=8
)
# A word of two tokens, one of one, the end, padding.
SOURCE = np.array([[7, 4, 9, 3, 0]], "int32")
PACKED = [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    "function, ids, positions, expected",
    [
        (number_source_words, [7, 4, 9, 3, 0], None, [0, 0, 1, 2, 2]),
        # Tokens before any word belong to the first.
        (number_source_words, [4, 9, 9], None, [0, 0, 1]),
        (number_source_words, [7, 9, 3, 8, 4, 3], PACKED, [0, 1, 2, 0, 0, 1]),
        (count_emitted_words, [2, 5, 8, 5, 9, 3], None, [0, 0, 1, 1, 2, 2]),
        (count_emitted_words, [8, 5, 9, 2, 8, 8], PACKED, [1, 1, 2, 0, 1, 2]),
    ],
)
def test_words_are_counted_in_each_sentence(function, ids, positions, expected):
    if positions is not None:
        positions = np.array([positions], "int32")
    found = function(CONFIG, np.array([ids], "int32"), positions)
    assert helpers.to_numpy(found)[0].tolist() == expected


def test_the_next_words_state_is_the_mean_over_its_tokens():
    memory = np.array([[[2, 0], [4, 2], [10, 0], [7, 7], [99, 99]]], "float32")
    words = number_source_words(CONFIG, SOURCE)
    states = WordStates(memory, words, SOURCE[:, None] != 0)
    found = states.of_next_word(np.array([[0, 1, 1, 2, 3]], "int32"))
    expected = [[3, 1], [10, 0], [10, 0], [7, 7], [0, 0]]
    np.testing.assert_allclose(helpers.to_numpy(found)[0], expected)


def test_each_class_refuses_the_positions_of_the_other():
    with pytest.raises(ValueError, match="ParserTransformer"):
        kt.Transformer(CONFIG)
    with pytest.raises(ValueError, match="Transformer"):
        kt.ParserTransformer(helpers.config())
