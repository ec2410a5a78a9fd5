"""--train_minutes: the updates that fit into a time, and their schedule."""

import dataclasses
import json
import re
import shutil

import pytest
import tensorflow as tf

from keras_transformer.schedule import update_schedule
from tests.trainers import cipher, commands
from tests.trainers.training_options import CONFIG
from tests.trainers.wmt import weights_files
from trainers.training import time_budget
from trainers.training.time_budget import UNPLANNED, TimeBudget, without_end

ARGUMENTS = (
    *commands.MINUTE,
    *("--dataset=text:toy", "--report_steps=1", "--checkpoint_steps=2"),
    *("--nojit", "--deterministic", "--keep_checkpoints=1000", "--ema=0.9"),
)


def planned(share, **changes):
    config = dataclasses.replace(
        CONFIG, train_steps=100, cooldown_steps=round(100 * share), **changes
    )
    return without_end(config, True)


def test_a_plan_counts_what_fits(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time_budget.time, "monotonic", lambda: now)
    budget = TimeBudget(10, planned(0.25))
    assert (budget.end_time, budget.plan_time) == (1600, 1450)
    now = 1030.0
    budget.on_train_batch_end(0)
    # 30 s to compile, then 42 updates of 10 s.
    for step in range(1, 43):
        now = 1030.0 + 10 * step
        budget.on_train_batch_end(step)
    # Of the remaining 150 s the next fit needs 30 to compile.
    assert budget.plan_end(1043) == 1055
    config = budget.plan_config(1043, 1055)
    assert (config.train_steps, config.cooldown_steps) == (1055, 12)
    now = 5000.0
    assert budget.plan_end(1043) == 1044


def test_given_steps_are_the_most(monkeypatch):
    config = dataclasses.replace(CONFIG, train_steps=50, cooldown_steps=10)
    budget = TimeBudget(10, config)
    for step in range(2):
        budget.on_train_batch_end(step)
    assert budget.plan_end(45) == 50
    assert budget.plan_config(45, 50) == config


def test_shares():
    config = planned(0.75)
    assert config.train_steps == UNPLANNED
    assert config.cooldown_steps == 0.75 * UNPLANNED
    assert planned(0).cooldown_steps == 0.75 * UNPLANNED
    assert without_end(CONFIG, False) == CONFIG


def test_a_plan_changes_no_earlier_rate():
    """Compilers multiply by 1 / 484, 484 times which is less than 1."""

    def rate(config, step):
        compiled = tf.function(update_schedule(config), autograph=False)
        return compiled(tf.constant(step)).numpy()

    end = dataclasses.replace(CONFIG, train_steps=507, cooldown_steps=483)
    for step in 20, 23:
        assert rate(end, step) == rate(planned(0.95), step)


def run(worker, folder, name, *flags):
    result = worker.wmt(
        *(*ARGUMENTS, f"--model_dir={name}", *flags), folder=folder
    )
    assert result.code == 0, result.err
    rates = dict(
        re.findall(r"step ([0-9,]+)[/:].*learning rate (\S+),", result.out)
    )
    return result, {int(step): float(rate) for step, rate in rates.items()}


def read(folder, name):
    return json.loads((folder / name).read_text())


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory, worker):
    """A folder, the output and the learning rates of a training for 6 s."""
    folder = tmp_path_factory.mktemp("budget")
    cipher.write(folder)
    return folder, *run(worker, folder, "m", "--train_minutes=0.1")


@pytest.mark.slow
def test_a_budget_is_like_the_planned_number(budgeted, worker):
    """To the bit, also after a kill, with the rates of a whole cooldown."""
    folder, result, rates = budgeted
    plan = read(folder / "m", "training.json")["plan"]
    last, cooldown = plan["train_steps"], plan["cooldown_steps"]
    assert f"{last:,} updates fit into the time." in result.out
    assert max(rates) == last and 0 < cooldown < last
    config = read(folder / "m", "config.json")
    assert (config["train_steps"], config["cooldown_steps"]) == (last, cooldown)
    # The last step has 1 / (cooldown + 1) of formula 3's rate.
    paper = config["learning_rate_scale"] * config["d_model"] ** -0.5
    paper *= min(last**-0.5, last * config["warmup_steps"] ** -1.5)
    assert rates[last] == pytest.approx(paper / (cooldown + 1), rel=0.01)
    run(
        *(worker, folder, "planned", f"--train_steps={last}"),
        f"--set=cooldown_steps={cooldown}",
    )
    one, other = (
        weights_files.arrays(folder / name) for name in ("m", "planned")
    )
    assert all((one[name] == other[name]).all() for name in one)
    # After a loss of all checkpoints but an early one.
    killed = shutil.copytree(folder / "m", folder / "killed")
    paths = sorted((killed / "checkpoints").iterdir())
    for path in paths:
        if not re.search(r"step-0*2\b", path.name):
            path.unlink()
    content = read(killed, "training.json")
    content["runs"][0]["last_step"] = 2
    (killed / "training.json").write_text(json.dumps(content))
    result, _ = run(worker, folder, "killed", "--train_minutes=0.1")
    assert "Resuming from step 2." in result.out
    assert "updates fit" not in result.out
    resumed = weights_files.arrays(killed)
    assert all((one[name] == resumed[name]).all() for name in one)


def test_a_finished_budget_is_finished(budgeted, worker):
    folder, *_ = budgeted
    result, _ = run(worker, folder, "m", "--train_minutes=0.1")
    assert "There are no more updates" in result.out


def test_without_a_cooldown_it_only_stops(budgeted, worker):
    folder, *_ = budgeted
    result, rates = run(
        *(worker, folder, "plain", "--train_minutes=0.02"),
        "--set=cooldown_steps=0",
    )
    assert "updates fit" not in result.out
    assert not (read(folder / "plain", "training.json")).get("plan")
    assert read(folder / "plain", "config.json")["cooldown_steps"] == 0
