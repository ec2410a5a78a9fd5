"""A command's standard error is its own."""

import subprocess
import sys

from tests.export import tiny

# What the process would see of itself as `python -m export.x`.
AS_A_COMMAND = """
import os, sys
sys.argv, sys.orig_argv = ["-m"], ["python", "-m", "export.x"]
import export
"""


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )


def test_the_first_word_is_the_commands_own():
    done = run("-m", "trainers.wmt", "--set=nothing=1")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --set=nothing=1: there is no field")
    assert done.stderr.count("\n") == 1


def test_all_but_notes_are_passed_on_even_of_a_crash():
    code = AS_A_COMMAND + (
        "print('ours', file=sys.stderr)\n"
        "os.write(2, b'I0000 00:00:17.5 1 port.cc:153] oneDNN is on\\n')\n"
        "os.write(2, b'E0000 00:00:17.5 1 x.cc:1] failed call to cuInit\\n')\n"
        "os.write(2, b'E0000 00:00:17.5 1 x.cc:1] oneDNN supports DT_INT32 '"
        "b'only on platforms with AVX-512.\\n')\n"
        "os.write(2, b'E0000 00:00:17.5 1 x.cc:1] something else\\n')\n"
        "os.write(2, b'terminate called without a line end')\n"
        "os.abort()\n"
    )
    done = run("-c", code)
    assert done.returncode < 0
    assert sorted(done.stderr.splitlines()) == [
        "E0000 00:00:17.5 1 x.cc:1] something else",
        "ours",
        "terminate called without a line end",
    ]


def test_who_imports_us_keeps_what_is_said():
    code = "import export, os\nos.write(2, b'I0000 00:00:17.5 1 note\\n')\n"
    assert run("-c", code).stderr == "I0000 00:00:17.5 1 note\n"


def test_a_closed_standard_error_stays_closed():
    command = f"{sys.executable} -m export.translate --model=/nowhere 2>&-"
    done = subprocess.run(
        command, shell=True, cwd=tiny.ROOT, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
