import dataclasses
import pathlib

import pytest

from export.model_directory import ModelDirectory
from tests.trainers import cipher, commands
from tests.trainers.checkpoint_models import HISTORIES, fill, new_model
from tests.trainers.data.memory_corpus import MemoryCorpus, prepare, splits
from tests.trainers.training_options import CONFIG, OPTIONS
from trainers.training.checkpoints import Checkpoints
from trainers.training.training_inputs import write_run_files


@pytest.fixture(scope="session")
def worker():
    """Runs `trainers.wmt` without starting TensorFlow each time."""
    running = commands.Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def evaluator():
    """Runs `trainers.evaluate` likewise."""
    running = commands.Worker("trainers.evaluate")
    yield running
    running.close()


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished run of the command in `folder`, which no test may change."""

    dataset: str
    arguments: tuple[str, ...]
    folder: pathlib.Path
    path: pathlib.Path
    result: commands.Result


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The command as a user runs it, in a process of its own."""
    folder = tmp_path_factory.mktemp("trained")
    dataset = cipher.write(folder)
    arguments = (
        *commands.MINUTE,
        f"--dataset={dataset}",
        "--train_steps=120",
        "--dev_steps=50",
        "--report_steps=40",
        "--checkpoint_steps=50",
        "--nojit",
    )
    result = commands.wmt_alone(*arguments, folder=folder)
    path = folder / "runs" / f"tiny-{cipher.SOURCE}-{cipher.TARGET}"
    return Trained(dataset, arguments, folder, path, result)


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=3)


@pytest.fixture
def saved(checkpoints):
    """(checkpoints, model, the values of steps 10, 20 and 30)."""
    model, values = new_model(), {}
    for step in (10, 20, 30):
        values[step] = fill(model, step)
        checkpoints.save(model, step, HISTORIES[step])
    return checkpoints, model, values


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Prepared data, which no test may change."""
    folder = tmp_path_factory.mktemp("corpus") / "data"
    return prepare(folder, MemoryCorpus(splits(), name="text:toy"))


@pytest.fixture
def directory(tmp_path):
    return ModelDirectory(tmp_path / "runs" / "model")


@pytest.fixture
def claimed(directory, corpus):
    """A directory that a training has begun in."""
    write_run_files(directory, CONFIG, corpus, OPTIONS)
    return directory


@pytest.fixture
def ray_cluster(monkeypatch):
    """A Ray cluster of three nodes of one CPU each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    node = {"num_cpus": 1, "include_dashboard": False}
    running = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    running.added = [running.add_node(num_cpus=1) for _ in range(2)]
    yield running
    running.shutdown()
