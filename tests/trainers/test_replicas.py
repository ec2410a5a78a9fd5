"""One device against several: the same weights, losses and measures."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.trainers import replica_training

ROOT = pathlib.Path(__file__).parents[2]
DEVICES = [2, pytest.param(8, marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=DEVICES)
def made(request, tmp_path_factory):
    """What `replica_training` made: its names to arrays."""
    out = tmp_path_factory.mktemp("replicas") / "out.npz"
    module = "tests.trainers.replica_training"
    subprocess.run(
        [sys.executable, "-m", module, str(request.param), str(out)],
        check=True,
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        timeout=500,
    )
    with np.load(out) as file:
        results = {name: file[name] for name in file.files}
    assert results["one/replicas"] == 1
    assert results["mirrored/replicas"] == request.param
    return results


def _below(made, prefix):
    return [
        value
        for name, value in sorted(made.items())
        if name.startswith(f"{prefix}/")
    ]


def _largest_difference(made, experiment):
    pairs = zip(
        _below(made, f"one/{experiment}"),
        _below(made, f"mirrored/{experiment}"),
        strict=True,
    )
    return max(np.abs(one - many).max() for one, many in pairs)


def test_the_batches_are_uneven():
    """Or all that follows would pass with a mean over replicas as well."""
    pairs = replica_training.TRAINING
    batches = replica_training.plan_of(pairs).from_step(0)
    for _, (rows, _) in zip(range(replica_training.ADAM_STEPS), batches):
        lengths = np.where(rows < 0, 0, pairs.target_lengths[rows])
        halves = lengths.reshape(2, -1).sum(axis=1)
        assert abs(halves[0] - halves[1]) >= 2


def test_the_same_weights_after_some_steps_of_adam(made):
    assert _largest_difference(made, "adam/weights") <= 1e-6


def test_the_same_loss_perplexity_and_accuracy_of_every_step(made):
    one, many = made["one/adam/log"], made["mirrored/adam/log"]
    assert len(one) == replica_training.ADAM_STEPS
    np.testing.assert_allclose(many, one, rtol=2e-6)


def test_tokens_are_those_of_the_global_batch(made):
    pairs = replica_training.TRAINING
    batches = replica_training.plan_of(pairs).from_step(0)
    tokens = [
        pairs.target_lengths[rows[rows >= 0]].sum()
        for _, (rows, _) in zip(range(replica_training.ADAM_STEPS), batches)
    ]
    for strategy in ("one", "mirrored"):
        assert made[f"{strategy}/adam/log"][:, -1].tolist() == tokens


def test_the_same_measures_of_dev(made):
    np.testing.assert_allclose(
        made["mirrored/adam/dev"], made["one/adam/dev"], rtol=2e-6
    )


def test_clipping_goes_by_the_norm_over_all_replicas(made):
    assert _largest_difference(made, "clip/after") <= 1e-6
    for strategy in ("one", "mirrored"):
        pairs = zip(
            _below(made, f"{strategy}/clip/before"),
            _below(made, f"{strategy}/clip/after"),
        )
        squares = [np.square(np.float64(a) - b).sum() for a, b in pairs]
        norm = np.sqrt(np.sum(squares))
        assert norm == pytest.approx(replica_training.CLIP_NORM, rel=1e-5)


def test_each_replica_draws_dropout_of_its_own(made):
    """With one mask for all, a row's noise is that of its fellows."""
    masks = made["mirrored/dropout/masks"]
    for number, mask in enumerate(masks):
        assert 0.2 < (mask == 0).mean() < 0.8
        for other in masks[:number]:
            assert (mask != other).any()
