"""Several sentence pairs in one row: segments and positions."""

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model

# (source length, target length) of each pair, by row; rows end in padding.
ROWS = [[(3, 2), (1, 4), (2, 1)], [(5, 3), (2, 3)]]
WIDTH = 9
SIDES = ("source", "target")


def pairs_and_rows():
    """The pairs, one a row, the same packed, and where each one went."""
    generator = np.random.default_rng(4)
    names = [
        f"{side}{kind}"
        for side in SIDES
        for kind in ("", "_segments", "_positions")
    ]
    packed = {name: np.zeros((len(ROWS), WIDTH), "int32") for name in names}
    alone = {side: np.zeros((5, 5), "int32") for side in SIDES}
    places = []
    for row, lengths in enumerate(ROWS):
        start = dict.fromkeys(SIDES, 0)
        for segment, pair in enumerate(lengths, 1):
            for side, length in zip(SIDES, pair):
                ids = generator.integers(4, 11, length, "int32")
                alone[side][len(places), :length] = ids
                begin, end = start[side], start[side] + length
                start[side] = end
                packed[side][row, begin:end] = ids
                packed[f"{side}_segments"][row, begin:end] = segment
                packed[f"{side}_positions"][row, begin:end] = range(length)
            places.append((row, slice(begin, end)))
    return alone, packed, places


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_packed_pairs_get_their_own_logits(name):
    model = helpers.variant(name)
    alone, packed, places = pairs_and_rows()
    together = helpers.logits(model, packed)
    apart = helpers.logits(model, alone)
    for number, (row, columns) in enumerate(places):
        actual = together[row, columns]
        expected = apart[number, : len(actual)]
        assert helpers.relative_error(actual, expected) <= 1e-5


@pytest.mark.parametrize("name", ["pre-norm", "window"])
def test_packed_rows_equal_reference(name):
    """Padding, whose segment is 0, attends to nothing."""
    model = helpers.variant(name)
    _, packed, _ = pairs_and_rows()
    expected = check_logits(model, packed)
    queries = {"encoder": "source", "decoder": "target", "cross": "target"}
    for kind, layers in model.attention(packed).items():
        real = packed[queries[kind]] != 0
        for number, layer in enumerate(layers):
            wanted = np.stack([getattr(row, kind)[number] for row in expected])
            wanted = np.where(real[:, None, :, None], wanted, 0.0)
            actual = helpers.to_numpy(layer)
            assert helpers.relative_error(actual, wanted) <= 1e-5
            # Nothing of another pair.
            assert (actual[wanted == 0] == 0).all()


def check_logits(model, packed):
    """Compares with the reference, whose outputs are returned."""
    weights = helpers.weights_by_name(model)
    outputs = whole_model.run_batch(model.config, weights, packed)
    expected = np.stack([each.logits for each in outputs])
    real = packed["target"] != 0
    logits = helpers.logits(model, packed)
    assert helpers.relative_error(logits[real], expected[real]) <= 1e-5
    return outputs


def test_a_row_may_be_longer_than_the_table_of_positions():
    """Only the positions, which restart in each pair, must fit the table."""
    changes = {"positions": "learned", "max_positions": 5}
    model = kt.Transformer(helpers.config(**changes))
    helpers.randomise(model)
    check_logits(model, pairs_and_rows()[1])


@pytest.mark.parametrize("side", ["source", "target"])
def test_segments_of_one_side_alone_are_refused(side):
    _, packed, _ = pairs_and_rows()
    del packed[f"{side}_segments"]
    model = kt.Transformer(helpers.config())
    with pytest.raises(ValueError, match="need both source_segments and"):
        model(packed)
