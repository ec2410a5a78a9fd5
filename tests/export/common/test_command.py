"""What every command does the same way, seen from outside."""

import os
import signal
import subprocess
import sys

import pytest

from tests import processes
from tests.export import tiny

SCRIPT = """
import signal, sys, time
# A shell may have started the tests with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from absl import flags
from export.common import command
from export.common.errors import InputError

flags.DEFINE_enum("do", "work", [
    "work", "refuse", "refuse-below", "interrupt", "wait", "break", "log-level"
], "What.")
flags.DEFINE_string("name", None, "A name.")

def main(arguments):
    what = flags.FLAGS.do
    if what == "work":
        print("done", arguments[1:])
    elif what == "refuse":
        raise InputError("There is no caf\\u00e9; name another.")
    elif what == "refuse-below":
        try:
            open("/nowhere/at/all")
        except OSError as error:
            raise InputError("It is missing.") from error
    elif what == "interrupt":
        raise KeyboardInterrupt
    elif what == "wait":
        print("ready", flush=True)
        time.sleep(600)
    elif what == "break":
        raise ZeroDivisionError("a fault of ours")
    elif what == "log-level":
        import os
        print(os.environ["TF_CPP_MIN_LOG_LEVEL"], "tensorflow" in sys.modules)

command.run(main)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    script = tmp_path_factory.mktemp("command") / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")

    def started(*arguments, **variables):
        environment = os.environ | {"PYTHONPATH": str(tiny.ROOT)} | variables
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environment,
        )

    return started


@pytest.fixture
def run(start):
    def finished(*arguments, **variables):
        process = start(*arguments, **variables)
        out, err = process.communicate()
        return process.returncode, out, err

    return finished


def test_success_is_silent_and_0(run):
    assert run() == (0, "done []\n", "")


@pytest.mark.parametrize(
    "what, message",
    [
        ("refuse", "There is no caf\u00e9; name another."),
        ("refuse-below", "It is missing."),
    ],
)
def test_what_the_user_can_put_right_is_one_line_and_2(run, what, message):
    assert run(f"--do={what}") == (2, "", f"Error: {message}\n")


def test_an_argument_that_is_no_flag_is_one_line_and_2(run):
    code, out, err = run("--do=work", "stray")
    assert (code, out) == (2, "")
    assert err == "Error: Unknown argument 'stray'; flags begin with --.\n"


@pytest.mark.parametrize("argument", ["--no_such_flag=1", "--do=nothing"])
def test_a_wrong_flag_is_named_without_a_traceback(run, argument):
    code, out, err = run(argument)
    assert code != 0
    assert out == ""
    assert argument.strip("-").partition("=")[0] in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "argument, says",
    [
        ("--name=", "--name has an empty value; give it one, or leave it out."),
        ("--name=\udcff", "is not UTF-8"),
    ],
)
def test_values_that_name_nothing_are_one_line_and_2(run, argument, says):
    code, out, err = run(argument)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("argument", ["--do=work", "--help"])
def test_a_reader_may_leave_any_command(start, argument):
    process = start(argument)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()


def test_text_is_utf8_in_every_locale(run):
    variables = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    _, _, err = run("--do=refuse", **variables)
    assert err == "Error: There is no caf\u00e9; name another.\n"


def test_names_are_utf8_in_every_locale(model_path, tmp_path):
    path = tmp_path / "mod\u00e8le [1]"
    path.symlink_to(model_path)
    svg = tmp_path / "f\u00e9"
    done = subprocess.run(
        [sys.executable, "-m", "export.attention", f"--model={path}"]
        + ["--text=b\u00e0", f"--svg={svg}"],
        cwd=tiny.ROOT,
        capture_output=True,
        encoding="utf-8",
        env=os.environ
        | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert f"Wrote {svg} (" in done.stderr
    assert svg.exists()


def test_an_interrupt_within_the_work_is_130(run):
    assert run("--do=interrupt") == (130, "", "Interrupted.\n")


def test_ctrl_c_is_130(start):
    process = start("--do=wait")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "Interrupted.\n")
    assert process.returncode == 130


def test_a_fault_of_ours_shows_where(run):
    code, _, err = run("--do=break")
    assert code not in (0, 2, 130)
    assert "Traceback" in err
    assert "ZeroDivisionError: a fault of ours" in err


def test_tensorflow_is_told_to_be_quiet_before_it_loads(run, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    assert run("--do=log-level") == (0, "2 False\n", "")
    assert run("--do=log-level", TF_CPP_MIN_LOG_LEVEL="0")[1] == "0 False\n"


@pytest.mark.parametrize("module", ["export.saved_model"])
def test_real_commands_are_told_so_too(module):
    # Their own imports come first.
    look = (
        "import sys, os\n"
        "class Look:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'tensorflow':\n"
        "            print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))\n"
        "            os._exit(0)\n"
        "sys.meta_path.insert(0, Look())\n"
        f"import runpy; runpy.run_module({module!r}, run_name='__main__')\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tiny.ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    done = subprocess.run(
        [sys.executable, "-u", "-c", look],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "2\n"


@pytest.mark.parametrize(
    "module, flag",
    [
        ("export.translate", "--alpha=nan"),
        ("export.sample", "--temperature=inf"),
        ("export.sample", "--top_p=nan"),
        ("export.sample", "--max_extra_tokens=3000000000"),
        ("export.client", "--timeout_seconds=inf"),
        ("export.saved_model", "--alpha=inf"),
    ],
)
def test_numbers_that_say_nothing_are_refused(module, flag):
    needed = {
        "export.saved_model": ["--model_dir=m", "--export_dir=e"],
        "export.client": ["--url=http://localhost:1"],
    }
    done = processes.run(
        {"module": module},
        [*needed.get(module, ["--model=m"]), flag],
        environment=processes.user_environment(),
        source=b"",
    )
    assert done.code in (1, 2)
    assert flag.partition("=")[0] in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("closed, flag", [("<&-", "input"), (">&-", "output")])
def test_closed_streams_are_told(model_path, closed, flag):
    done = subprocess.run(
        ["bash", "-c", f'"$@" {closed}', "bash", sys.executable, "-m"]
        + ["export.translate", f"--model={model_path}"],
        cwd=tiny.ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"closed; give --{flag}=FILE.")
