"""CPU count, signals, subprocesses and folder locks."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from export.common.errors import InputError
from export.common.processes import StopSignals, folder_lock, run_subcommand
from tests.export import tiny
from tests.trainers.data.memory_corpus import contents, prepare

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def usual():
    """The handlers of a process of its own; restored after the test."""

    def terminate(number, frame):
        raise SystemExit(128 + number)

    handlers = [signal.default_int_handler, terminate]
    before = [signal.signal(*pair) for pair in zip(SIGNALS, handlers)]
    yield handlers
    for pair in zip(SIGNALS, before):
        signal.signal(*pair)


def _handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (signal.SIGTERM, signal.SIGINT, KeyboardInterrupt),
        (signal.SIGINT, signal.SIGTERM, SystemExit),
    ],
)
def test_the_first_signal_stops_and_the_second_acts(
    first, second, expected, usual
):
    calls = []
    with StopSignals(lambda: calls.append(1)) as signals:
        assert signals.received == 0
        assert _handlers() != usual
        os.kill(os.getpid(), first)
        assert signals.received == first
        with pytest.raises(expected):
            os.kill(os.getpid(), second)
    assert calls == [1]
    assert _handlers() == usual


SAVES = """
    import signal, sys, pathlib, time
    def save(number, frame):
        pathlib.Path("heard").open("a").write(f"{number} ")
        time.sleep(0.2)
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, save)
    pathlib.Path("ready").touch()
    time.sleep(60)
"""
DEAF = """
    import os, pathlib, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path("ready").write_text(str(os.getpid()))
    time.sleep(60)
"""


@pytest.fixture
def run_stub(tmp_path, monkeypatch):
    """Runs code as a subcommand, after which these signals are sent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def send(numbers):
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        for number in numbers:
            time.sleep(0.1)
            os.kill(os.getpid(), number)

    def run(code, *numbers):
        before = _handlers()
        (tmp_path / "stub.py").write_text(textwrap.dedent(code))
        sender = threading.Thread(target=send, args=(numbers,))
        if numbers:
            sender.start()
        try:
            return run_subcommand("stub", ["a", "b"])
        finally:
            if numbers:
                sender.join()
            assert _handlers() == before

    return run


def test_a_subcommand_has_a_shells_exit_code(run_stub):
    for code, expected in (
        ("import sys; sys.exit(len(sys.argv))", 3),
        ("", 0),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ):
        assert run_stub(code) == expected


def test_a_second_signal_ends_both(run_stub, tmp_path):
    with pytest.raises(SystemExit) as caught:
        run_stub(DEAF, signal.SIGTERM, signal.SIGTERM)
    assert caught.value.code == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "ready").read_text()), 0)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_passed_on_once(run_stub, tmp_path, number):
    assert run_stub(SAVES, number) == 128 + number
    assert (tmp_path / "heard").read_text() == f"{int(number)} "


HOLDER = """
import pathlib, sys
from export.common.processes import folder_lock
with folder_lock(pathlib.Path(sys.argv[1]), "training"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path / "m"."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "m")],
        cwd=tiny.ROOT,
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


@pytest.mark.parametrize("is_killed", [False, True])
def test_one_process_at_a_time_until_it_ends(tmp_path, holder, is_killed):
    with pytest.raises(InputError, match=r"Another training .* in \S*/m and"):
        _enter(tmp_path / "m")
    # The refused process took nothing away.
    assert (tmp_path / "m" / "training.lock").exists()
    if is_killed:
        holder.kill()
        holder.wait()
    else:
        holder.communicate("")
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


def test_an_error_releases_it_and_no_folder_is_refused(tmp_path):
    with pytest.raises(KeyError), folder_lock(tmp_path / "m", "training"):
        raise KeyError
    assert list((tmp_path / "m").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="training.lock"):
        _enter(tmp_path / "file" / "m")
    (tmp_path / "link").symlink_to("nothing")
    for name in ("file", "link"):
        with pytest.raises(InputError, match=f"{name} is not a folder"):
            _enter(tmp_path / name)


def test_data_are_prepared_by_one_at_a_time(tmp_path):
    with (
        folder_lock(tmp_path, "preparation"),
        pytest.raises(InputError, match="Another preparation"),
    ):
        prepare(tmp_path)
    assert contents(tmp_path) == {}
