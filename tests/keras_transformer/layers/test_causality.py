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
def test_a_token_depends_on_the_source_and_on_earlier_tokens(name):
    """In one batch: the pairs, with later target words, a source word each."""
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    rows = {
        key: [*ids, *[ids[1]] * 2, *[ids[0]] * 5] for key, ids in inputs.items()
    }
    batch = {key: np.stack(ids) for key, ids in rows.items()}
    for row, position in ((3, 1), (4, 5)):
        part = np.s_[row, position:]
        batch["target"][part] = other_word(batch["target"][part])
    for position in range(5):
        place = 5 + position, position
        batch["source"][place] = other_word(batch["source"][place])
    logits = helpers.logits(model, batch)
    for row, position in ((3, 1), (4, 5)):
        changed = changes(logits[row], logits[1])
        assert changed[:position].max() <= SAME
        assert changed[position] > 1e-3
    for row in range(5, 10):
        assert (changes(logits[row], logits[0])[:4] > 1e-5).all()
    # Neither neighbours nor padding change anything.
    real = inputs["target"] != 0
    wider = {
        key: np.pad(ids, ((0, 0), (0, more)))
        for (key, ids), more in zip(inputs.items(), (7, 5))
    }
    after = helpers.logits(model, wider)[:, : real.shape[1]]
    assert changes(after, logits[:3])[real].max() <= SAME


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
