"""A training that stopped and resumed is the one that never stopped."""

import os
import shutil
import subprocess

import keras
import numpy as np
import pytest

from tests.export import conftest
from tests.trainers import cipher, commands
from tests.trainers.helpers import batches_of, made_up_pairs, minute_model
from trainers.batches import GroupedBatches, PairGroups, input_pipeline
from trainers.training.callbacks import SaveCheckpoints, StepCounter
from trainers.training.checkpoints import Checkpoints

small_disk = conftest.small_disk
# Two groups, of one shape: each is compiled.
BATCHES = GroupedBatches(
    PairGroups(
        (lambda: made_up_pairs(25, seed=4), lambda: made_up_pairs(25, seed=5)),
        (128, 128),
    ),
    lambda pairs: batches_of(pairs, shapes=1),
    is_packed=False,
    batch_tokens=64,
    seed=1,
)


def _train(folder, seed):
    """Trains to step 6 from a folder's latest checkpoint; returns losses."""
    model = minute_model(seed, dropout=0.3)
    model.compile_for_training(ema=0.5)
    checkpoints = Checkpoints(folder, keep=9)
    step, history = checkpoints.restore_latest(model)
    counter, losses = StepCounter(step, 6), []

    def save(prefix):
        checkpoints.save(model, counter.step, history, prefix)

    data = input_pipeline.training_data(
        model.distribute_strategy, BATCHES, step
    )
    log = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: losses.append(
            float(logs["loss"])
        )
    )
    saver = SaveCheckpoints(counter, save, 3, 0, None)
    model.fit(
        data,
        steps_per_epoch=100,
        callbacks=[counter, log, saver],
    )
    return losses


def test_every_number_is_the_same_to_the_bit(tmp_path):
    one, resumed = tmp_path / "one", tmp_path / "resumed"
    losses = _train(one, seed=1)
    resumed.mkdir()
    shutil.copy(one / "step-00000003.npz", resumed)
    # Another seed: whatever is not restored would be different.
    # The next batches and their dropout give the same losses.
    assert _train(resumed, seed=2) == losses[3:]
    assert len(set(losses)) == 6
    name = "step-00000006.npz"
    with np.load(one / name) as arrays, np.load(resumed / name) as others:
        assert set(arrays.files) == set(others.files)
        # Weights, dropout's state, both of Adam's moments and the average.
        kinds = {each.partition("/")[0] for each in arrays.files}
        assert kinds >= {"weight", "state", "optimizer", "step"}
        for key in arrays.files:
            assert arrays[key].dtype == others[key].dtype
            assert arrays[key].tobytes() == others[key].tobytes(), key


# Free KiB, and where they end: a vocabulary takes 236, a checkpoint 100.
FULL_AT = {64: "data/vocabulary.model", 660: "checkpoints/step-00000004.npz"}


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0",
    reason="see BUILD.md",
)
def test_a_full_disk_is_one_line_and_the_same_command_resumes(
    worker, tmp_path, small_disk
):
    """From half-prepared data, and from the checkpoint of step 2."""
    remount = ["mount", "-o", "remount,size=2m", str(small_disk)]
    subprocess.run(remount, check=True)
    cipher.write(tmp_path, splits=("train",))
    arguments = (
        *commands.MINUTE,
        *("--dataset=text:toy", f"--model_dir={small_disk}/m", "--nojit"),
        *("--train_steps=4", "--checkpoint_steps=2"),
    )
    size = os.statvfs(small_disk)
    capacity = size.f_blocks * size.f_frsize
    filler = small_disk / "filler"
    for kibibytes, name in FULL_AT.items():
        filler.unlink(missing_ok=True)
        filler.write_bytes(bytes(capacity - 1024 * kibibytes))
        result = worker.wmt(*arguments, folder=tmp_path)
        pattern = rf"Error: Cannot write \S*m/{name}: .*No space left on device"
        commands.assert_one_clear_line(result, pattern)
        assert not [p for p in small_disk.rglob(".*") if p.is_file()]
    filler.unlink()
    result = worker.wmt(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Resuming from step 2." in result.out
