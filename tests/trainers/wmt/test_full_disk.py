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
    """Mounts a file system of so many KiB."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(kibibytes):
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs"]
            + [str(folder)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"mounting is not allowed here: {done.stderr!r}")
        return folder

    yield mount
    # Lazily, in case that a file is still open.
    subprocess.run(
        ["umount", "--lazy", str(folder)], capture_output=True, check=False
    )


def _run(worker, tmp_path, disk, *more):
    cipher.write(tmp_path, splits=("train",))
    return worker.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--train_steps=4",
        "--nojit",
        f"--model_dir={disk}/m",
        *more,
        folder=tmp_path,
    )


def _assert_refused(result, name):
    pattern = rf"Error: Cannot write \S*{name}: .*No space left on device"
    commands.assert_one_clear_line(result, pattern)


# A vocabulary takes 236 KiB, a shard 8 and 4, JSON files a page each, logs two
# pages at first, a checkpoint 100 KiB, the weights 108.
FULL_AT = {
    64: "m/data/vocabulary.model",
    244: "m/data/train-00000.ids.npy",
    252: "m/data/manifest.json",
    256: "m/vocabulary.model",
    492: "m/config.json",
    496: "m/logs",
    560: "m/checkpoints/step-00000004.npz",
    640: "m/model.weights.h5",
}


@pytest.mark.parametrize("kibibytes", FULL_AT)
def test_wherever_it_is_full_one_line_says_so(
    worker, tmp_path, disk, kibibytes
):
    folder = disk(kibibytes)
    result = _run(worker, tmp_path, folder)
    _assert_refused(result, FULL_AT[kibibytes])
    assert [path for path in folder.rglob(".*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kibibytes", "name"),
    [(64, FULL_AT[64]), (660, "m/checkpoints/step-00000004.npz")],
)
def test_with_space_again_the_same_command_resumes(
    worker, tmp_path, disk, kibibytes, name
):
    """From half-prepared data, and from the checkpoint of step 2."""
    folder = disk(2048)
    arguments = ("--checkpoint_steps=2", "--keep_checkpoints=9")
    fill_up(folder, kibibytes)
    _assert_refused(_run(worker, tmp_path, folder, *arguments), name)
    (folder / "filler").unlink()
    result = _run(worker, tmp_path, folder, *arguments)
    assert result.code == 0, result.err
    assert ("Resuming from step 2." in result.out) == (kibibytes == 660)


def test_the_final_weights_are_complete_or_missing(disk):
    """HDF5 fails in ways of its own, and may end its process."""
    folder = disk(1024)
    module = {"module": "tests.trainers.wmt.full_disk_weights"}
    done = processes.run(module, [folder])
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    lines = done.out.splitlines()
    assert len(lines) >= 5
    for line in lines:
        assert re.fullmatch(
            r"Cannot write .*No space left on device.* left: \[\]", line
        )
