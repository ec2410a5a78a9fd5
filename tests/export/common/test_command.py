"""What every command does the same way."""

import os
import signal
import subprocess
import sys

import pytest
from absl import flags

from export.common import command
from export.common.errors import InputError
from tests.export import commands, tiny

SCRIPT = """
import signal, time
# A shell may have started the tests with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from export.common import command

def main(arguments):
    print("ready", flush=True)
    time.sleep(600)

command.run(main)
"""
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(main, *arguments, **options):
    """Runs a function as a command in this process."""

    def define_and_run():
        flags.DEFINE_enum("do", "work", ["work", "rest"], "What.")
        flags.DEFINE_string("name", None, "A name.")
        command.run(main, **options)

    return commands.run_main(define_and_run, [], arguments)


def refuse(arguments):
    raise InputError("It is missing.") from OSError("gone")


def interrupt(arguments):
    raise KeyboardInterrupt


def test_exit_codes():
    assert run(print) == (0, ["['command']"], [])
    assert run(refuse) == (2, [], ["Error: It is missing."])
    assert run(interrupt) == (130, [], ["Interrupted."])
    with pytest.raises(ZeroDivisionError):
        run(lambda arguments: 1 / 0)


def test_arguments_that_mean_nothing_are_one_line():
    for arguments, operands, code, named in (
        (["stray"], [], 2, "Unknown argument 'stray'; flags begin with --."),
        ([], ["EXPORT"], 2, "EXPORT is missing"),
        (["--name="], [], 2, "--name has an empty value"),
        (["--name=\udcff"], [], 2, "is not UTF-8"),
        (["--no_such_flag=1"], [], 1, "no_such_flag"),
        (["--do=nothing"], [], 1, "do"),
    ):
        found, lines, (err,) = run(print, *arguments, operands=operands)
        assert (found, lines) == (code, [])
        assert named in err


def test_numbers_without_meaning_are_refused():
    for module, flag in (
        ("export.translate", "--alpha=nan"),
        ("export.sample", "--max_extra_tokens=3000000000"),
        ("export.sample", "--samples=2000000"),
        ("export.sample", "--temperature=1e31"),
        ("export.sample", "--top_k=3000000000"),
    ):
        code, lines, err = commands.run(module, "m", [], flag)
        assert (code, lines) == (1, [])
        assert flag.partition("=")[0].strip("-") in err[0]


@pytest.fixture
def start(tmp_path):
    """Starts the script in a process of its own."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")

    def started(*arguments, **variables):
        return subprocess.Popen(
            [sys.executable, str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": str(tiny.ROOT)} | variables,
        )

    return started


def test_a_reader_may_leave_any_command(start):
    process = start("--help")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()


def test_ctrl_c_is_130(start):
    process = start()
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "Interrupted.\n")
    assert process.returncode == 130


CLIENT = [sys.executable, "-m", "export.client", "--url=http://h:1"]


def test_text_and_names_are_utf8_in_every_locale(tmp_path):
    flag = f"--input={tmp_path}/f\u00e9"
    done = subprocess.run(
        [*CLIENT, flag],
        cwd=tiny.ROOT,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | ASCII,
    )
    assert done.stderr.startswith(f"Error: {flag} cannot be read")
    assert done.returncode == 2


def test_closed_streams_are_named():
    for closed, flag in (("<&-", "input"), (">&-", "output")):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {closed}', "bash", *CLIENT],
            cwd=tiny.ROOT,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 2
        assert done.stderr.endswith(f"closed; give --{flag}=FILE.\n")
