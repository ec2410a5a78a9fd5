import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from export.common.errors import InputError
from export.common.processes import folder_lock
from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import contents, prepare

HOLDER = """
import pathlib
import sys
from export.common.processes import folder_lock
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


def test_nothing_is_left_after_a_block_or_an_error(tmp_path):
    folder = tmp_path / "runs" / "m"
    assert _enter(folder) == ["training.lock"]
    assert list(folder.iterdir()) == []
    with pytest.raises(KeyError), folder_lock(folder, "training"):
        raise KeyError
    assert list(folder.iterdir()) == []


def test_one_at_a_time(tmp_path, holder):
    with pytest.raises(InputError, match=r"Another training .* in \S*/m and"):
        _enter(tmp_path / "m")
    # The refused process took nothing away.
    assert (tmp_path / "m" / "training.lock").exists()
    holder.communicate("")
    assert _enter(tmp_path / "m") == ["training.lock"]


def test_a_killed_process_locks_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "m" / "training.lock").exists()
    assert _enter(tmp_path / "m") == ["training.lock"]
    assert list((tmp_path / "m").iterdir()) == []


def test_many_threads_hold_it_one_at_a_time(tmp_path):
    """However their files are made and removed in between."""
    inside, most, entered = [], [], []

    def run():
        while len(entered) < 40:
            try:
                with folder_lock(tmp_path, "training"):
                    inside.append(1)
                    most.append(len(inside))
                    entered.append(1)
                    inside.pop()
            except InputError:
                continue

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="training.lock"):
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
    commands.assert_one_clear_line(second, "Another training")
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
    second = processes.run(PREPARE, _preparation(), tmp_path)
    commands.assert_one_clear_line(second, "Another preparation")
    training = commands.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--prepared_dir=data",
        "--model_dir=m",
        folder=tmp_path,
    )
    commands.assert_one_clear_line(training, "Another preparation")
    assert contents(tmp_path / "data") == before
    assert not (tmp_path / "m").exists()
    # A killed one locks nothing, and the next one finishes.
    preparing.kill()
    preparing.wait()
    done = processes.run(PREPARE, _preparation(), tmp_path)
    assert done.code == 0, done.err
    assert "preparation.lock" not in contents(tmp_path / "data")


def test_finished_data_need_no_lock(tmp_path, monkeypatch):
    """They may be in a folder that cannot be written."""
    prepare(tmp_path)

    def refuse(*_):
        raise AssertionError("locked")

    monkeypatch.setattr("trainers.data.preparation.folder_lock", refuse)
    assert prepare(tmp_path).manifest.complete
