"""What a position's output may depend on."""

import numpy as np
import pytest

from tests.keras_transformer import helpers

# Of the largest logit, for float32 sums taken in another order.
SAME = 1e-6


def other_word(ids):
    """Another of the words 4 to 10."""
    return 4 + (ids - 3) % 7


def changes(after, before):
    """By how much each position's logits differ: [B, T]."""
    return np.abs(after - before).max(axis=-1) / np.abs(before).max()


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_later_target_tokens_change_nothing(name):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    before = helpers.logits(model, inputs)
    for position in (1, 3, 5):
        target = inputs["target"].copy()
        target[1, position:] = other_word(target[1, position:])
        after = helpers.logits(model, inputs | {"target": target})
        changed = changes(after, before)[1]
        assert changed[:position].max() == 0
        assert changed[position] > 1e-3


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_every_source_word_counts_in_its_own_row_only(name):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    before = helpers.logits(model, inputs)
    for position in range(5):
        source = inputs["source"].copy()
        source[0, position] = other_word(source[0, position])
        after = helpers.logits(model, inputs | {"source": source})
        changed = changes(after, before)
        assert (changed[0, :4] > 1e-5).all()
        assert changed[1:].max() == 0


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_amount_of_padding_changes_nothing(name):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    before = helpers.logits(model, inputs)
    real = inputs["target"] != 0
    for extra in ((1, 0), (0, 3), (7, 5)):
        wider = {
            key: np.pad(ids, ((0, 0), (0, more)))
            for (key, ids), more in zip(inputs.items(), extra)
        }
        after = helpers.logits(model, wider)[:, : before.shape[1]]
        assert changes(after, before)[real].max() <= SAME


def test_neighbours_in_the_batch_change_nothing():
    model, inputs = helpers.variant("paper"), helpers.padded_inputs()
    together = helpers.logits(model, inputs)
    for row in range(3):
        lone = {key: ids[row : row + 1] for key, ids in inputs.items()}
        real = inputs["target"][row] != 0
        changed = changes(helpers.logits(model, lone)[0], together[row])
        assert changed[real].max() <= SAME


def test_a_window_sees_its_neighbours_only():
    """N layers of window r carry a word N r positions far, and no farther."""
    model = helpers.variant("window")
    generator = np.random.default_rng(2)
    ids = generator.integers(4, 11, (1, 9)).astype("int32")
    before = helpers.to_numpy(model.encode(ids))[0]
    ids[0, 4] = other_word(ids[0, 4])
    changed = changes(helpers.to_numpy(model.encode(ids))[0], before)
    assert (changed[2:7] > 1e-4).all()
    assert (changed[[0, 1, 7, 8]] <= SAME).all()
