"""Several sentence pairs in one row: segments and positions."""

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model

# (source length, target length) of each pair, by row; rows end in padding.
ROWS = [[(3, 2), (1, 4), (2, 1)], [(5, 3), (2, 3)]]
WIDTH = 9


def packed_rows():
    generator = np.random.default_rng(4)
    packed = {}
    for number, side in enumerate(("source", "target")):
        ids = np.zeros((len(ROWS), WIDTH), "int32")
        segments, positions = ids.copy(), ids.copy()
        for row, pairs in enumerate(ROWS):
            end = 0
            for segment, lengths in enumerate(pairs, 1):
                length = lengths[number]
                part = np.s_[row, end : end + length]
                ids[part] = generator.integers(4, 11, length)
                segments[part], positions[part] = segment, range(length)
                end += length
        packed[side] = ids
        packed[f"{side}_segments"] = segments
        packed[f"{side}_positions"] = positions
    return packed


@pytest.mark.parametrize("name", ["pre-norm", "window", "next-word", "marian"])
def test_packed_rows_equal_reference(name):
    whole_model.assert_equal(helpers.variant(name), packed_rows())


def test_a_row_may_be_longer_than_the_table_of_positions():
    """Only the positions, which restart in each pair, must fit the table."""
    changes = {"positions": "learned", "max_positions": 5}
    model = kt.Transformer(helpers.config(**changes))
    helpers.randomise(model)
    whole_model.assert_equal(model, packed_rows())


@pytest.mark.parametrize("side", ["source", "target"])
def test_segments_of_one_side_alone_are_refused(side):
    packed = packed_rows()
    del packed[f"{side}_segments"]
    with pytest.raises(ValueError, match="need both source_segments and"):
        helpers.variant("paper")(packed)
