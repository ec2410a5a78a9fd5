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
from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.prepared.memory_corpus import contents, prepare
from trainers.processes import folder_lock

HOLDER = """
import pathlib
import sys
from trainers.processes import folder_lock
with folder_lock(pathlib.Path(sys.argv[1]), "training"):
    print("locked", flush=True)
    sys.stdin.read()
"""

PREPARE = {"module": "trainers.prepare"}


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
    with folder_lock(folder, "training"):
        return [path.name for path in folder.iterdir()]


def test_the_directory_is_made_and_nothing_is_left(tmp_path):
    folder = tmp_path / "runs" / "m"
    assert _enter(folder) == ["training.lock"]
    assert list(folder.iterdir()) == []


def test_nothing_is_left_after_an_error_either(tmp_path):
    with pytest.raises(KeyError), folder_lock(tmp_path, "training"):
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
    with folder_lock(tmp_path, "training"):
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


@pytest.mark.slow
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


@pytest.fixture
def preparing(tmp_path):
    """trainers.prepare into tmp_path / "data", stopped in its midst."""
    # Enough that its vocabulary takes longer than stopping it.
    cipher.write(tmp_path)
    many = zip(*cipher.sentences(50_000))
    cipher.write_split(tmp_path, "toy.train", *many)
    reading, writing = os.pipe()
    with os.fdopen(reading) as lines:
        with os.fdopen(writing, "w") as out:
            process = processes.start(
                PREPARE, _preparation(), tmp_path, stdout=out
            )
        try:
            next(line for line in lines if line.startswith("Training a voc"))
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()
            process.wait()


def _preparation():
    return (
        "--dataset=text:toy",
        f"--source_language={cipher.SOURCE}",
        f"--target_language={cipher.TARGET}",
        "--vocabulary_size=64",
        "--output_dir=data",
    )


def test_data_are_prepared_by_one_at_a_time(tmp_path, preparing):
    before = contents(tmp_path / "data")
    assert "preparation.lock" in before
    message = "Another preparation is under way in data and holds its"
    second = processes.run(PREPARE, _preparation(), tmp_path)
    commands.assert_one_clear_line(second, message)
    training = commands.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--prepared_dir=data",
        "--model_dir=m",
        folder=tmp_path,
    )
    commands.assert_one_clear_line(training, message)
    assert contents(tmp_path / "data") == before
    assert not (tmp_path / "m").exists()
    # What the first began, whoever comes after it may end.
    preparing.send_signal(signal.SIGCONT)
    assert preparing.wait(60) == 0
    after = contents(tmp_path / "data")
    assert processes.run(PREPARE, _preparation(), tmp_path).code == 0
    assert contents(tmp_path / "data") == after
    assert "preparation.lock" not in after


def test_a_killed_preparation_locks_nothing(tmp_path, preparing):
    preparing.kill()
    preparing.wait()
    done = processes.run(PREPARE, _preparation(), tmp_path)
    assert done.code == 0, done.err
    assert "preparation.lock" not in contents(tmp_path / "data")


def test_finished_data_need_no_lock(tmp_path, monkeypatch):
    """They may lie where nothing can be written."""
    prepare(tmp_path)

    def refuse(*_):
        raise AssertionError("locked")

    monkeypatch.setattr("trainers.prepared.writing.folder_lock", refuse)
    assert prepare(tmp_path).manifest.complete
