"""A training that stopped and went on is the one that never stopped."""

import shutil

import keras
import numpy as np
import pytest

from tests.trainers.helpers import made_up_pairs, minute_model, plan_of
from trainers.batches import input_pipeline
from trainers.training.callbacks import SaveCheckpoints, StepCounter
from trainers.training.checkpoints import Checkpoints

PAIRS = made_up_pairs(45, seed=4)
DROPOUT = 0.3
# Of one shape: each is compiled.
PLAN = plan_of(PAIRS, shapes=1)


class _Losses(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        del batch
        self.values.append(float(logs["loss"]))


def _train(folder, seed):
    """Trains to step 6 from the latest checkpoint of a folder."""
    model = minute_model(seed, dropout=DROPOUT)
    checkpoints = Checkpoints(folder, keep=9)
    step, history = checkpoints.restore_latest(model)
    counter, losses = StepCounter(step, 6), _Losses()

    def save():
        checkpoints.save(model, counter.step, history)

    model.fit(
        input_pipeline.training_data(
            model.distribute_strategy, PAIRS, PLAN, step
        ),
        steps_per_epoch=100,
        callbacks=[
            counter,
            losses,
            SaveCheckpoints(counter, save, save, 3, 0, None),
        ],
        shuffle=False,
        verbose=0,
    )
    return losses.values


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(folder, losses) of 6 steps, and of 3, a restart, and 3 more."""
    folder = tmp_path_factory.mktemp("resume")
    whole, parted = folder / "whole", folder / "parted"
    losses = _train(whole, seed=1)
    parted.mkdir()
    shutil.copy(whole / "step-00000003.npz", parted)
    # Another seed: whatever is not restored would be different.
    return (whole, losses), (parted, _train(parted, seed=2))


def test_every_number_is_the_same_to_the_bit(runs):
    (whole, _), (parted, _) = runs
    name = "step-00000006.npz"
    with np.load(whole / name) as one, np.load(parted / name) as other:
        assert set(one.files) == set(other.files)
        # Weights, dropout's state and both of Adam's moments are among them.
        kinds = {each.partition("/")[0] for each in one.files}
        assert kinds >= {"weight", "state", "optimizer", "step"}
        for key in one.files:
            assert one[key].dtype == other[key].dtype
            assert one[key].tobytes() == other[key].tobytes(), key


def test_it_goes_on_with_the_next_batch_and_the_next_noise(runs):
    (_, whole), (_, parted) = runs
    assert len(whole) == 6
    assert parted == whole[3:]
    assert len(set(whole)) == 6
