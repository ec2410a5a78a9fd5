"""A disk that is really full: a small file system made for the test."""

import os
import re
import subprocess

import pytest

from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import contents
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


def _assert_one_clear_line(result, name):
    assert "Traceback" not in result.raw_err
    assert result.code == 2, result.raw_err
    assert result.err.count("\n") == 1, result.err
    line = result.err
    assert re.match(rf"Error: Cannot write \S*{name}: ", line)
    assert "No space left on device" in line


def _half_written(disk):
    return [path for path in disk.rglob(".*") if path.is_file()]


# A vocabulary takes 236 KiB, a shard 8 and 4, what says what is there a page
# each, logs two pages at first, a checkpoint 100 KiB, the weights 108.
ROOM = {
    64: "m/data/vocabulary.model",
    236: "m/data/manifest.json",
    244: "m/data/train-00000.ids.npy",
    248: "m/data/train-00000.lengths.npy",
    252: "m/data/manifest.json",
    256: "m/vocabulary.model",
    488: "m/run.json",
    492: "m/config.json",
    496: "m/logs",
    560: "m/checkpoints/step-00000004.npz",
    640: "m/model.weights.h5",
}


@pytest.mark.parametrize("kibibytes", ROOM)
def test_wherever_it_is_full_one_line_says_so(
    worker, tmp_path, disk, kibibytes
):
    folder = disk(kibibytes)
    result = _run(worker, tmp_path, folder)
    _assert_one_clear_line(result, ROOM[kibibytes])
    assert _half_written(folder) == []


@pytest.mark.parametrize(
    "kibibytes", [64, pytest.param(252, marks=pytest.mark.slow)]
)
def test_data_half_prepared_are_gone_on_with(worker, tmp_path, disk, kibibytes):
    folder = disk(2048)
    fill_up(folder, kibibytes)
    result = _run(worker, tmp_path, folder)
    _assert_one_clear_line(result, ROOM[kibibytes])
    before = contents(folder / "m" / "data")
    (folder / "filler").unlink()
    result = _run(worker, tmp_path, folder)
    assert result.code == 0, result.err
    after = contents(folder / "m" / "data")
    for files in (before, after):
        files.pop("manifest.json", None)
    assert before.items() <= after.items()
    assert ("Training a vocabulary" in result.out) is (not before)


def test_with_room_again_the_same_command_goes_on(worker, tmp_path, disk):
    folder = disk(1024)
    arguments = ("--checkpoint_steps=2", "--keep_checkpoints=9")
    # Room for the checkpoint of step 2 and not for that of step 4.
    fill_up(folder, 660)
    result = _run(worker, tmp_path, folder, *arguments)
    _assert_one_clear_line(result, "m/checkpoints/step-00000004.npz")
    names = [path.name for path in (folder / "m" / "checkpoints").iterdir()]
    assert names == ["step-00000002.npz"]
    (folder / "filler").unlink()
    result = _run(worker, tmp_path, folder, *arguments)
    assert result.code == 0, result.err
    assert "Resuming from step 2." in result.out


def test_the_final_weights_are_whole_or_not_there(disk):
    """HDF5 fails in ways of its own; in a process that it may take along."""
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
