"""Two workers on loopback, through the command."""

import re
import signal
import time

import numpy as np
import pytest

from tests.trainers import cluster, commands, event_files
from tests.trainers.data.memory_corpus import prepare
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """The command line of every worker; data are prepared."""
    folder = tmp_path_factory.mktemp("workers") / "data"
    prepare(folder)
    flags = [each for each in commands.MINUTE if "_language" not in each]
    return (
        *flags,
        *(f"--prepared_dir={folder}", "--model_dir=m", "--set=dropout=0"),
        # Rounding may turn a ReLU on or off; a smooth activation shows what
        # else would differ.
        *("--set=activation=gelu", "--train_steps=12", "--dev_steps=6"),
        *("--report_steps=5", "--checkpoint_steps=10", "--nojit", "--noscore"),
    )


def _losses(result):
    """[(step, loss)] of what was reported."""
    return re.findall(r"^step (\d+)\S*: (?:dev )?loss (\S+),", result.out, re.M)


def test_the_same_model_as_one_process(arguments, worker, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    workers = cluster.start(
        *arguments, "--attention_steps=12", folders=[two, two]
    )
    single = worker.wmt(*arguments, folder=one)
    assert single.code == 0, single.err
    chief, other = cluster.finish(workers)
    assert (chief.code, other.code) == (0, 0), chief.err + other.err
    ours, theirs = (weights_files.arrays(each / "m") for each in (two, one))
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=0, atol=1e-6)
    # The chief alone reports, and what one process would.
    assert len(_losses(single)) > 3
    assert _losses(chief) == _losses(single)
    assert not _losses(other)
    # It alone looks at attention, which changes nothing.
    logs = two / "m" / "logs" / "attention"
    assert event_files.translation_steps(logs) == [12]
    assert len(list(logs.iterdir())) == 1


def _start_long(arguments, folder):
    """Starts a training that goes on until it is stopped."""
    workers = cluster.start(
        *arguments, "--train_steps=100000", folders=[folder, folder]
    )
    while not _steps(folder):
        assert all(each.process.poll() is None for each in workers)
        time.sleep(0.1)
    return workers


def _steps(folder):
    return Checkpoints(folder / "m" / "checkpoints", 5).steps()


# Of the second worker's death the first one hears only when it is missed.
@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_stops_the_others_and_the_job_resumes(
    arguments, tmp_path, victim
):
    workers = _start_long(arguments, tmp_path)
    workers[victim].process.kill()
    survivor = cluster.finish(workers)[1 - victim]
    assert survivor.code == 2
    assert (
        "Error: Another worker stopped or cannot be reached "
        f"(worker {victim}, localhost:"
    ) in survivor.err
    assert "Traceback" not in survivor.err
    step = _steps(tmp_path)[-1]
    more = (*arguments, f"--train_steps={step + 5}")
    results = cluster.finish(cluster.start(*more, folders=[tmp_path] * 2))
    assert [result.code for result in results] == [0, 0]
    assert f"Resuming from step {step:,}." in results[0].out


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_all_after_the_same_step(
    arguments, tmp_path
):
    workers = _start_long(arguments, tmp_path)
    workers[1].process.send_signal(signal.SIGTERM)
    results = cluster.finish(workers)
    assert [result.code for result in results] == [143, 143]
    one, other = (
        re.findall(r"^Saved at step ([\d,]+);", result.out, re.M)
        for result in results
    )
    assert one == other and len(one) == 1
    step = int(one[0].replace(",", ""))
    checkpoints = Checkpoints(tmp_path / "m" / "checkpoints", 5)
    # Of that step, unless one was due after it anyway.
    was_due = step == _steps(tmp_path)[-1]
    assert was_due or checkpoints.path(step, "stop").exists()


@pytest.mark.slow
def test_workers_with_folders_of_their_own_are_refused(arguments, tmp_path):
    """The second worker does not see the first one's checkpoint."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first = commands.wmt(*arguments, "--train_steps=10", folder=folders[0])
    assert first.code == 0, first.err
    for result in cluster.finish(cluster.start(*arguments, folders=folders)):
        assert result.code == 2
        assert "one folder that all of them share" in result.err
