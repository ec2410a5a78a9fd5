import os
import signal
import textwrap
import threading
import time

import pytest

from export.common.processes import run_subcommand

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


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def _module(folder, code):
    (folder / "stub.py").write_text(textwrap.dedent(code))
    return "stub"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(len(sys.argv))", 3),
        ("", 0),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_its_exit_code_is_told_as_a_shell_does(in_folder, code, expected):
    assert run_subcommand(_module(in_folder, code), ["a", "b"]) == expected


DEAF = """
    import os, pathlib, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path("ready").write_text(str(os.getpid()))
    time.sleep(60)
"""


def test_a_second_signal_ends_both(in_folder):
    def send():
        while not (in_folder / "ready").exists():
            time.sleep(0.01)
        for _ in range(2):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(SystemExit) as caught:
        run_subcommand(_module(in_folder, DEAF), [])
    sender.join()
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ProcessLookupError):
        os.kill(int((in_folder / "ready").read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_once(in_folder, number):
    def send():
        while not (in_folder / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    sender = threading.Thread(target=send)
    sender.start()
    code = run_subcommand(_module(in_folder, SAVES), [])
    sender.join()
    assert code == 128 + number
    assert (in_folder / "heard").read_text() == f"{int(number)} "
    assert signal.getsignal(number) is before
