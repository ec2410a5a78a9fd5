"""One device, and several with micro-batches: the same weights and losses."""

import numpy as np
import pytest

from tests import processes
from tests.keras_transformer import device_fits
from tests.trainers.training import replica_training


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Arrays of `replica_training` by name."""
    out = tmp_path_factory.mktemp("replicas") / "out.npz"
    module = {"module": "tests.trainers.training.replica_training"}
    done = processes.run(module, [2, out], timeout=900)
    assert done.code == 0, done.err
    with np.load(out) as file:
        results = dict(file)
    assert results["replicas"] == 2
    return results


def _arrays(made, prefix):
    return [made[name] for name in sorted(made) if name.startswith(prefix)]


def test_weights_losses_and_dev_are_the_same(made):
    """After steps of Adam, with clipping by the norm of all replicas."""
    before, after, others = (
        _arrays(made, name)
        for name in ("one/before/", "one/after/", "mirrored/after/")
    )
    moved = [np.abs(a - b).max() for a, b in zip(before, after, strict=True)]
    assert min(moved) > 0 and np.median(moved) > 2e-5
    for one, other in zip(after, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    for name in ("log", "dev"):
        np.testing.assert_allclose(
            made[f"mirrored/{name}"], made[f"one/{name}"], rtol=3e-6
        )


def test_tokens_are_those_of_uneven_global_batches(made):
    """Were they even, a mean over replicas would pass as well."""
    pairs, tokens, uneven = replica_training.TRAINING, [], 0
    for number, batch in enumerate(replica_training.PLAN.from_step(0)):
        if number == replica_training.STEPS:
            break
        lengths = np.zeros(batch.shape.rows, int)
        np.add.at(lengths, batch.rows, pairs.target_lengths[batch.pair_indices])
        halves = [half.sum() for half in np.split(lengths, [len(lengths) // 2])]
        uneven += abs(halves[0] - halves[1]) >= 2
        tokens.append(lengths.sum())
    assert uneven >= replica_training.STEPS / 2
    for name in ("one", "mirrored"):
        assert made[f"{name}/log"][:, -1].tolist() == tokens


def test_replicas_have_dropout_masks_of_their_own(made):
    layers = _arrays(made, "mask/")
    # One layer: of the embeddings, and of each sublayer's weights or units and
    # of its output.
    assert len(layers) == 1 + 2 * 2 + 2 * 3
    for masks in layers:
        assert all(0.2 < (mask == 0).mean() < 0.8 for mask in masks)
        assert len({mask.tobytes() for mask in masks}) == len(masks)
    # The training step uses them: the same batch has another loss on each.
    assert len(set(made["loss"].tolist())) == len(made["loss"])


def test_keras_fits_are_the_same_on_one_device_and_several(made):
    """Of every public layer and model, with the loss of Keras' users."""
    one, other = (
        {
            name.removeprefix(f"{strategy} keras/"): value
            for name, value in made.items()
            if name.startswith(f"{strategy} keras/")
        }
        for strategy in ("one", "mirrored")
    )
    device_fits.assert_same(other, one, 1e-4)
