"""The best checkpoint of dev is kept, and becomes the model when asked."""

import json
import re

import numpy as np
import pytest

from tests.damage import flip_bit
from tests.trainers import cipher, commands
from tests.trainers.checkpoint_models import fill, new_model, same, values_of
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints
from trainers.training.dev_scores import rank_measures

HISTORY = [{"step": 10, "loss": 1.0}]


def _names(checkpoints):
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_the_best_outlives_the_latest_until_a_better_one_comes(checkpoints):
    model = new_model()
    best = fill(model, 10)
    checkpoints.save_best(model, 10, HISTORY)
    for step in (10, 20, 30, 40, 50):
        checkpoints.save(model, step, HISTORY)
        fill(model, step + 1)
    latest = [f"step-000000{step}.npz" for step in (30, 40, 50)]
    assert _names(checkpoints) == ["best-00000010.npz", *latest]
    assert checkpoints.steps() == [30, 40, 50]
    assert checkpoints.use(model, 10)
    weights = model.get_weights()
    assert all(np.array_equal(*pair) for pair in zip(weights, best))
    checkpoints.save_best(model, 60, HISTORY)
    assert _names(checkpoints) == ["best-00000060.npz", *latest]
    assert not checkpoints.use(model, 10)


def test_training_goes_on_from_the_best_where_it_is_the_latest(saved):
    checkpoints, model, values = saved
    best = fill(model, 35)
    checkpoints.save_best(model, 35, HISTORY)
    other = new_model()
    assert checkpoints.restore_latest(other) == (35, HISTORY)
    assert same(values_of(other), best)
    path = checkpoints.best_path(35)
    flip_bit(path)
    assert checkpoints.restore_latest(other).step == 30
    assert same(values_of(other), values[30])
    assert not checkpoints.use(other, 35)


def test_the_best_does_not_go_into_the_average(saved):
    checkpoints, model, _ = saved
    fill(model, 35)
    checkpoints.save_best(model, 35, HISTORY)
    assert checkpoints.average(model, 2) == [20, 30]


@pytest.mark.parametrize(
    ("key", "values", "order"),
    [
        ("loss", [3.0, 1.0, 2.0, 1.0], [1, 3, 2, 0]),
        ("bleu", [3.0, 1.0, 2.0, 3.0], [0, 3, 2, 1]),
        ("f1", [3.0, 1.0, 2.0, 3.0], [0, 3, 2, 1]),
    ],
)
def test_the_best_is_the_first_of_equals(key, values, order):
    history = [
        {"step": step, "loss": 5.0, key: value}
        for step, value in enumerate(values)
    ]
    assert [measure["step"] for measure in rank_measures(history)] == order


def _run(worker, folder, *options):
    result = worker.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--model_dir=m",
        # After a few updates the weights are beyond all use.
        "--set=learning_rate_scale=300",
        "--set=warmup_steps=20",
        "--dev_steps=2",
        "--checkpoint_steps=2",
        "--keep_checkpoints=2",
        *options,
        folder=folder,
    )
    assert result.code == 0, result.err
    return result


@pytest.mark.slow
def test_the_model_is_the_best_of_a_training_that_went_wrong(worker, tmp_path):
    """And still is after an interruption in between."""
    folder = tmp_path
    cipher.write(folder, splits=("train",))
    # Which nonsense is the best would differ from one machine to the next.
    sources, _ = zip(*cipher.sentences(12))
    cipher.write_split(folder, "toy.dev", sources, ["1 2 3 4"] * 12)
    commands_given = [("--train_steps=14", "--dev_bleu_sentences=4")]
    commands_given += [(*commands_given[0], "--train_steps=20", "--keep_best")]
    results = [_run(worker, folder, *each) for each in commands_given]
    found = [
        (float(loss), int(step), float(bleu))
        for result in results
        for step, loss, bleu in re.findall(
            r"^step (\d+): dev loss ([\d.]+).*BLEU ([\d.]+)$", result.out, re.M
        )
    ]
    assert len(found) == 10
    # Of equals the first, of which only its being the best has a checkpoint.
    assert {bleu for _, _, bleu in found} == {0.0}
    best, step = 0.0, 2
    checkpoints = Checkpoints(folder / "m" / "checkpoints", 2)
    assert _names(checkpoints) == [
        f"best-{step:08d}.npz",
        "step-00000018.npz",
        "step-00000020.npz",
    ]
    assert (
        f"The final weights are those of step {step}, whose dev BLEU was the "
        f"best, {best:.2f}."
    ) in results[1].out
    saved = weights_files.of_a_checkpoint(checkpoints.best_path(step))
    for one, other in zip(
        weights_files.in_order(saved.values()),
        weights_files.of_the_model(folder / "m"),
        strict=True,
    ):
        assert np.array_equal(one, other)
    log = json.loads((folder / "m" / "training.json").read_text())
    assert log["weights"]["step"] == step
    assert [(run["first_step"], run["last_step"]) for run in log["runs"]] == [
        (0, 14),
        (14, 20),
    ]
