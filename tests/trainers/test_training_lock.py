import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest

from export.errors import InputError
from export.model_directory import ModelDirectory
from tests import processes
from tests.trainers import commands
from trainers.training_lock import training_lock

HOLDER = """
import pathlib
import sys
import types
from trainers.training_lock import training_lock
# A ModelDirectory would import TensorFlow.
with training_lock(types.SimpleNamespace(path=pathlib.Path(sys.argv[1]))):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path / "m"."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "m")],
        cwd=commands.ROOT,
        env=commands.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def _enter(folder):
    with training_lock(ModelDirectory(folder)):
        return [path.name for path in folder.iterdir()]


def test_the_directory_is_made_and_nothing_is_left(tmp_path):
    folder = tmp_path / "runs" / "m"
    assert _enter(folder) == ["training.lock"]
    assert list(folder.iterdir()) == []


def test_nothing_is_left_after_an_error_either(tmp_path):
    with pytest.raises(KeyError), training_lock(ModelDirectory(tmp_path)):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_one_at_a_time(tmp_path, holder):
    with pytest.raises(InputError, match=r"Another training .* in \S*/m and"):
        _enter(tmp_path / "m")
    # Who was refused took nothing away.
    assert (tmp_path / "m" / "training.lock").exists()
    holder.communicate("")
    assert _enter(tmp_path / "m") == ["training.lock"]


def test_a_killed_training_locks_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "m" / "training.lock").exists()
    assert _enter(tmp_path / "m") == ["training.lock"]
    assert list((tmp_path / "m").iterdir()) == []


def test_a_lock_that_its_holder_removed_is_made_anew(tmp_path, monkeypatch):
    """Between opening and locking the one before may come to its end."""
    path = tmp_path / "training.lock"
    lock, tries = fcntl.lockf, []

    def late(descriptor, how):
        if not tries:
            path.unlink()
        tries.append(descriptor)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", late)
    with training_lock(ModelDirectory(tmp_path)):
        assert os.path.samestat(path.stat(), os.fstat(tries[-1]))
    assert len(tries) == 2


def test_a_file_system_without_locks_is_warned_of(
    tmp_path, monkeypatch, capsys
):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    _enter(tmp_path)
    assert "without locks (No locks available)" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write .*training.lock"):
        _enter(tmp_path / "file" / "m")


def test_the_command_refuses_a_second_training(trained, tmp_path):
    arguments = (
        *trained.arguments,
        "--train_steps=1000000",
        "--report_steps=1",
        "--model_dir=m",
    )
    reading, writing = os.pipe()
    with os.fdopen(reading) as lines, tempfile.TemporaryFile() as err:
        with os.fdopen(writing, "w") as out:
            first = processes.start(
                commands.WMT, arguments, tmp_path, stdout=out, stderr=err
            )
        try:
            next(line for line in lines if re.match("step 1/", line))
            second = commands.wmt(*arguments, folder=tmp_path)
            first.send_signal(signal.SIGTERM)
            rest = lines.read()
        finally:
            first.kill()
        assert first.wait(60) == 143
    assert second.code == 2
    assert re.fullmatch(
        r"Error: Another training is under way in m .*\n", second.err
    )
    assert "Saved at step" in rest
    assert not (tmp_path / "m" / "training.lock").exists()
