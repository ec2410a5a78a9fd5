"""One device against several, and parts of a batch: the same weights,
losses and measures."""

import numpy as np
import pytest

from tests import processes
from tests.trainers.helpers import plan_of
from tests.trainers.training import replica_training
from trainers.batches import collate

DEVICES = [2, pytest.param(8, marks=pytest.mark.slow)]
WAYS = ["mirrored", "accumulated", "both"]


def _run(devices, folder, *experiments):
    """What `replica_training` made: its names to arrays."""
    out = folder / "out.npz"
    module = {"module": "tests.trainers.training.replica_training"}
    done = processes.run(module, [devices, out, *experiments], timeout=900)
    assert done.code == 0, done.err
    with np.load(out) as file:
        results = {name: file[name] for name in file.files}
    assert results["one/replicas"] == 1
    assert results["mirrored/replicas"] == devices
    return results


@pytest.fixture(scope="module", params=DEVICES)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    return _run(request.param, folder, "smooth", "clip", "dropout", "same")


def _below(made, prefix):
    return [
        value
        for name, value in sorted(made.items())
        if name.startswith(f"{prefix}/")
    ]


def _largest_difference(made, way, experiment):
    pairs = zip(
        _below(made, f"one/{experiment}"),
        _below(made, f"{way}/{experiment}"),
        strict=True,
    )
    return max(np.abs(one - many).max() for one, many in pairs)


def _batches():
    batches = replica_training.PLAN.from_step(0)
    return [batch for _, batch in zip(range(replica_training.STEPS), batches)]


def test_the_batches_are_uneven():
    """Or all that follows would pass with a mean over replicas as well."""
    pairs = replica_training.TRAINING
    uneven = 0
    for batch in _batches():
        lengths = np.zeros(batch.shape.rows, int)
        lengths[batch.rows] = pairs.target_lengths[batch.pairs]
        halves = [half.sum() for half in np.split(lengths, [len(lengths) // 2])]
        uneven += abs(halves[0] - halves[1]) >= 2
    assert uneven >= replica_training.STEPS / 2


@pytest.mark.parametrize("way", WAYS)
def test_the_same_weights_after_some_steps_of_adam(made, way):
    assert _largest_difference(made, way, "smooth/weights") <= 1e-6


def test_the_steps_do_move_the_weights(made):
    """Or equal weights would say nothing."""
    assert _has_moved(made, "smooth")


def _has_moved(made, config):
    start = replica_training.make_model(
        replica_training.make_strategy("one"),
        **replica_training.CONFIGS[config],
    )
    moved = [
        np.abs(weight.numpy() - made[f"one/{config}/weights/{number}"]).max()
        for number, weight in enumerate(start.weights)
    ]
    return min(moved) > 0 or np.median(moved) > 2e-5


@pytest.mark.parametrize("way", WAYS)
def test_the_same_loss_perplexity_and_accuracy_of_every_step(made, way):
    _assert_same_logs(made, way, "smooth")


def _assert_same_logs(made, way, config):
    one, many = made[f"one/{config}/log"], made[f"{way}/{config}/log"]
    assert len(one) == replica_training.STEPS
    np.testing.assert_allclose(many, one, rtol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 8])
def test_the_same_with_relu_at_the_papers_rates(tmp_path, devices):
    made = _run(devices, tmp_path, "paper")
    assert _largest_difference(made, "mirrored", "paper/weights") <= 1e-6
    assert _has_moved(made, "paper")
    _assert_same_logs(made, "mirrored", "paper")


def test_tokens_are_those_of_the_global_batch(made):
    pairs = replica_training.TRAINING
    tokens = [pairs.target_lengths[each.pairs].sum() for each in _batches()]
    for way in ("one", *WAYS):
        assert made[f"{way}/smooth/log"][:, -1].tolist() == tokens


@pytest.mark.parametrize("way", WAYS)
def test_the_same_measures_of_dev(made, way):
    np.testing.assert_allclose(
        made[f"{way}/smooth/dev"], made["one/smooth/dev"], rtol=3e-6
    )


def test_measures_of_dev_weigh_every_token_alike(made):
    """They are those of one batch with all pairs in it."""
    strategy = replica_training.make_strategy("one")
    model = replica_training.make_model(
        strategy, **replica_training.CONFIGS["smooth"]
    )
    for number, weight in enumerate(model.weights):
        weight.assign(made[f"one/smooth/weights/{number}"])
    whole = plan_of(replica_training.DEV, batch_tokens=10_000, shapes=1)
    assert whole.batches_per_epoch == 1
    inputs, labels = collate.make_batch(replica_training.DEV, whole.epoch(0)[0])
    losses = model.token_loss.token_losses(labels, model(inputs))
    tokens = (labels != 0).sum()
    expected = [
        np.sum(losses.smoothed) / tokens,
        np.exp(np.sum(losses.plain) / tokens),
        np.sum(losses.correct) / tokens,
    ]
    np.testing.assert_allclose(made["one/smooth/dev"], expected, rtol=3e-6)


@pytest.mark.parametrize("way", ["mirrored", "accumulated"])
def test_clipping_goes_by_the_norm_of_the_whole_gradient(made, way):
    assert _largest_difference(made, way, "clip/after") <= 1e-6
    for name in ("one", way):
        pairs = zip(
            _below(made, f"{name}/clip/before"),
            _below(made, f"{name}/clip/after"),
        )
        squares = [np.square(np.float64(a) - b).sum() for a, b in pairs]
        norm = np.sqrt(np.sum(squares))
        assert norm == pytest.approx(replica_training.CLIP_NORM, rel=1e-5)


def test_each_layer_drops_something_of_its_own_on_each_replica(made):
    """With one mask for all, a row's noise is that of its fellows."""
    layers = _below(made, "mirrored/dropout/masks")
    # One layer: of the embeddings, a mask of each sublayer's weights or units
    # and one of its output.
    assert len(layers) == 1 + 2 * 2 + 2 * 3
    for masks in layers:
        for number, mask in enumerate(masks):
            assert 0.2 < (mask == 0).mean() < 0.8
            for other in masks[:number]:
                assert (mask != other).any()


def _changes(made, way, name):
    pairs = zip(
        _below(made, f"{way}/same/{name}/before"),
        _below(made, f"{way}/same/{name}/after"),
        strict=True,
    )
    return [after - before for before, after in pairs]


def test_a_training_step_drops_otherwise_on_each_replica(made):
    """Of a batch that all have alike the mean gradient is not that of one."""
    for name, alike in {"whole": True, "dropping": False}.items():
        one, many = (_changes(made, way, name) for way in ("one", "mirrored"))
        difference = max(np.abs(a - b).max() for a, b in zip(one, many))
        assert (difference <= 1e-6) == alike
        assert alike or difference > 1e-3
