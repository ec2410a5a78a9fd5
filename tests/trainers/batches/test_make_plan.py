"""The batches of a training are those that its flags ask for."""

import pytest

from tests.trainers.training_plans import changed
from tests.trainers.wmt.slow_batches import pairs_of, some_texts
from trainers.batches import make_plan
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed

PAIRS = pairs_of(some_texts(400, seed=5))
LENGTHS = PAIRS.source_lengths, PAIRS.target_lengths
CONFIG = type("Config", (), {"batch_tokens": 512})


def _listed(plan):
    return [
        (batch.pairs.tolist(), batch.rows.tolist(), batch.shape)
        for batch in plan.epoch(0)
    ]


@pytest.mark.parametrize("seed", [1, 8])
@pytest.mark.parametrize("row_tokens", [24, 64])
def test_packed_rows_are_as_long_as_asked_for(row_tokens, seed):
    plan = changed(batching="pack", row_tokens=row_tokens, seed=seed)
    expected = plan_packed(*LENGTHS, 512, row_tokens, seed)
    assert _listed(make_plan(PAIRS, CONFIG, plan)) == _listed(expected)
    assert max(expected.shapes[0][1:]) <= row_tokens


@pytest.mark.parametrize("seed", [1, 8])
@pytest.mark.parametrize("shapes", [2, 5])
def test_there_are_as_many_shapes_as_asked_for(shapes, seed):
    plan = changed(batching="length", shapes=shapes, seed=seed)
    expected = plan_by_length(*LENGTHS, 512, shapes, seed)
    assert _listed(make_plan(PAIRS, CONFIG, plan)) == _listed(expected)
    assert len(expected.shapes) == shapes
