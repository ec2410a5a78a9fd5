"""`trainers.prepare --ray`: the same bytes as of threads, whoever dies."""

import contextlib
import itertools
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests import processes
from tests.trainers import cipher, commands, ray_workers
from tests.trainers.data.memory_corpus import SIZE, byte_vocabulary, contents
from tests.trainers.ray_workers import (
    finish,
    kill_busy_ray_worker,
    wait_until,
)

NUM_PAIRS = 125_000


@pytest.fixture
def arguments(tmp_path):
    """Flags for a corpus of some shards with copies and pairs to remove."""
    pairs = cipher.sentences(50_000)
    repeated = itertools.islice(itertools.cycle(pairs), NUM_PAIRS)
    texts = [
        (f"{source} {number % 99_991}", f"{target} {number % 99_991}")
        for number, (source, target) in enumerate(repeated)
    ]
    cipher.write_split(tmp_path, "toy.train", *zip(*texts))
    model = byte_vocabulary()
    (tmp_path / "vocabulary").write_bytes(model["vocabulary"])
    return (
        *(
            f"--dataset=text:{tmp_path}/toy",
            f"--vocabulary={tmp_path}/vocabulary",
        ),
        *(f"--source_language={cipher.SOURCE}", "--copy_rate=0.1"),
        *(f"--target_language={cipher.TARGET}", "--max_ratio=1.5"),
        *(f"--vocabulary_size={SIZE + 256}", "--drop_duplicates"),
        "--segmentations=2",
    )


def start(arguments, output, *flags):
    return ray_workers.start(
        "trainers.prepare", *arguments, f"--output_dir={output}", *flags
    )


def kill_after_a_shard(process, output):
    wait_until(lambda: count_shards(output) > 0)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def count_shards(output):
    return len([*output.glob("train-*.lengths.npy")])


@pytest.mark.slow
def test_ray_nodes_workers_and_commands_may_die(
    ray_cluster, arguments, tmp_path
):
    expected, output, other = (tmp_path / each for each in ("a", "b", "c"))
    finish(start(arguments, expected, "--workers=2"))
    at = f"--ray={ray_cluster.address}"
    kill_after_a_shard(start(arguments, output, "--workers=1"), output)
    process = start(arguments, output, at)
    wait_until(lambda: kill_busy_ray_worker("_call"))
    ray_cluster.remove_node(ray_cluster.added[0], allow_graceful=False)
    assert 0 < count_shards(output) < count_shards(expected)
    finish(process)
    assert contents(output) == contents(expected)
    kill_after_a_shard(start(arguments, other, at), other)
    finish(start(arguments, other, "--workers=1"))
    assert contents(other) == contents(expected)


@pytest.fixture
def ray_command(tmp_path):
    """Runs the command `ray` as the documents do, with a home of its own."""
    pytest.importorskip("ray")
    environment = processes.user_environment() | {
        "HOME": str(tmp_path / "home"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    path = pathlib.Path(sys.executable).with_name("ray")

    def run(*arguments):
        return subprocess.run(
            [path, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    yield run, environment
    run("stop", "--force")


def _start_head(ray):
    """Returns the address; a busy machine exceeds Ray's 30 seconds."""
    for _ in range(9):
        with contextlib.suppress(subprocess.CalledProcessError):
            output = ray("start", "--head")
            return re.search(r"--address='(\S+)'", output)[1]
        ray("stop", "--force")
    raise AssertionError("Ray does not start.")


@pytest.mark.slow
@pytest.mark.parametrize("has_token", [False, True])
def test_the_documented_commands_with_the_defaults_of_ray(
    ray_command, tmp_path, has_token
):
    ray, environment = ray_command
    cipher.write(tmp_path)
    flags = (
        *("--dataset=text:toy", "--vocabulary_size=64", "--max_unknown=1"),
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
    )

    def prepare(output, address, **changes):
        return processes.run(
            {"module": "trainers.prepare"},
            (*flags, f"--output_dir={output}", f"--ray={address}"),
            tmp_path,
            environment | changes,
            imported=False,
        )

    commands.assert_one_clear_line(prepare("none", "auto"), "ray start --head")
    if has_token:
        ray("get-auth-token", "--generate")
    address = _start_head(ray)
    for output, at in (("one", "auto"), ("two", address)):
        result = prepare(output, at)
        assert result.code == 0, result.err
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    if has_token:
        for at in ("auto", address):
            result = prepare("none", at, RAY_AUTH_TOKEN="0" * 64)
            commands.assert_one_clear_line(result, "authentication token")
        result = prepare("none", address, HOME=str(tmp_path / "empty"))
        commands.assert_one_clear_line(result, "authentication token")
    assert not (tmp_path / "none").exists()
