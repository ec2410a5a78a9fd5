"""One device, several, and micro-batches: the same weights and losses."""

import numpy as np
import pytest

from tests import processes
from tests.trainers.helpers import plan_of
from tests.trainers.training import replica_training
from trainers.batches import collate
from trainers.training.strategies import make_strategy

WAYS = ["mirrored", "accumulated"]


def _run(devices, folder, *options):
    """Runs `replica_training`; returns its arrays by name."""
    out = folder / "out.npz"
    module = {"module": "tests.trainers.training.replica_training"}
    done = processes.run(module, [devices, out, *options], timeout=900)
    assert done.code == 0, done.err
    with np.load(out) as file:
        results = dict(file)
    assert results["replicas"] == devices
    return results


@pytest.fixture(
    scope="module", params=[2, pytest.param(8, marks=pytest.mark.slow)]
)
def made(request, tmp_path_factory):
    return _run(request.param, tmp_path_factory.mktemp("replicas"))


def _arrays(made, prefix):
    return [made[name] for name in sorted(made) if name.startswith(prefix)]


def _assert_same_training(made, way):
    pairs = zip(
        _arrays(made, "one/after/"), _arrays(made, f"{way}/after/"), strict=True
    )
    assert max(np.abs(one - other).max() for one, other in pairs) <= 1e-6
    assert len(made["one/log"]) == replica_training.STEPS
    for name in ("log", "dev"):
        np.testing.assert_allclose(
            made[f"{way}/{name}"], made[f"one/{name}"], rtol=3e-6
        )


def _assert_has_moved(made):
    moved = [
        np.abs(before - after).max()
        for before, after in zip(
            _arrays(made, "one/before/"), _arrays(made, "one/after/")
        )
    ]
    assert min(moved) > 0 and np.median(moved) > 2e-5


def _batches():
    batches = replica_training.PLAN.from_step(0)
    return [batch for _, batch in zip(range(replica_training.STEPS), batches)]


def test_the_batches_are_uneven():
    """Otherwise a mean over replicas would pass as well."""
    pairs = replica_training.TRAINING
    uneven = 0
    for batch in _batches():
        lengths = np.zeros(batch.shape.rows, int)
        lengths[batch.rows] = pairs.target_lengths[batch.pairs]
        halves = [half.sum() for half in np.split(lengths, [len(lengths) // 2])]
        uneven += abs(halves[0] - halves[1]) >= 2
    assert uneven >= replica_training.STEPS / 2


@pytest.mark.parametrize("way", WAYS)
def test_weights_losses_and_dev_are_the_same(made, way):
    """After steps of Adam, with clipping by the norm of all replicas."""
    _assert_has_moved(made)
    _assert_same_training(made, way)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 8])
def test_the_same_with_relu_at_the_papers_rates(tmp_path, devices):
    made = _run(devices, tmp_path, "--relu")
    _assert_has_moved(made)
    _assert_same_training(made, "mirrored")


def test_tokens_are_those_of_the_global_batch(made):
    pairs = replica_training.TRAINING
    tokens = [pairs.target_lengths[each.pairs].sum() for each in _batches()]
    for way in ("one", *WAYS):
        assert made[f"{way}/log"][:, -1].tolist() == tokens


def test_dev_weighs_every_token_alike(made):
    """As one batch with all pairs in it."""
    model = replica_training.make_model(
        make_strategy("one"), **replica_training.SMOOTH
    )
    for number, weight in enumerate(model.weights):
        weight.assign(made[f"one/after/{number}"])
    plan = plan_of(replica_training.DEV, batch_tokens=10_000, shapes=1)
    assert plan.batches_per_epoch == 1
    inputs, labels = collate.make_batch(replica_training.DEV, plan.epoch(0)[0])
    losses = model.token_loss.token_losses(labels, model(inputs))
    tokens = (labels != 0).sum()
    expected = [
        np.sum(losses.smoothed) / tokens,
        np.exp(np.sum(losses.plain) / tokens),
        np.sum(losses.correct) / tokens,
    ]
    np.testing.assert_allclose(made["one/dev"], expected, rtol=3e-6)


def test_replicas_have_dropout_masks_of_their_own(made):
    layers = _arrays(made, "mask/")
    # One layer: of the embeddings, and of each sublayer's weights or units and
    # of its output.
    assert len(layers) == 1 + 2 * 2 + 2 * 3
    for masks in layers:
        for number, mask in enumerate(masks):
            assert 0.2 < (mask == 0).mean() < 0.8
            for other in masks[:number]:
                assert (mask != other).any()
    # A training step uses them: of rows that all replicas have alike, the mean
    # loss is not that of one.
    assert abs(made["one/loss"] - made["mirrored/loss"]) > 1e-3
