"""A disk that is really full: a small file system made for the test."""

import os
import re
import subprocess

import pytest

from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.wmt.full_disk_weights import fill_up


@pytest.fixture
def disk(tmp_path):
    """A file system of 2 MiB."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2048k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr!r}")
    yield folder
    # Lazily, in case that a file is still open.
    subprocess.run(
        ["umount", "--lazy", str(folder)], capture_output=True, check=False
    )


# A vocabulary takes 236 KiB, a shard 8 and 4, JSON files a page each, logs two
# pages at first, a checkpoint 100 KiB.
FULL_AT = {
    64: "data/vocabulary.model",
    660: "checkpoints/step-00000004.npz",
}


def test_one_line_says_what_is_full_and_the_same_command_resumes(
    worker, tmp_path, disk
):
    """From half-prepared data, and from the checkpoint of step 2."""
    cipher.write(tmp_path, splits=("train",))
    arguments = (
        *commands.MINUTE,
        *("--dataset=text:toy", f"--model_dir={disk}/m", "--nojit"),
        *("--train_steps=4", "--checkpoint_steps=2"),
    )
    for kibibytes, name in FULL_AT.items():
        fill_up(disk, kibibytes)
        result = worker.wmt(*arguments, folder=tmp_path)
        pattern = rf"Error: Cannot write \S*m/{name}: .*No space left on device"
        commands.assert_one_clear_line(result, pattern)
        assert not [p for p in disk.rglob(".*") if p.is_file()]
    (disk / "filler").unlink()
    result = worker.wmt(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Resuming from step 2." in result.out


def test_the_final_weights_are_complete_or_missing(disk):
    """HDF5 fails in ways of its own, and may end its process."""
    module = {"module": "tests.trainers.wmt.full_disk_weights"}
    done = processes.run(module, [disk])
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    lines = done.out.splitlines()
    assert len(lines) >= 5
    for line in lines:
        assert re.fullmatch(
            r"Cannot write .*No space left on device.* left: \[\]", line
        )
