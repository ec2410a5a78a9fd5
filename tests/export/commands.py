"""Commands on lines, as processes of their own."""

import pathlib
import subprocess
import sys

from tests import processes

# An export is no model for a process that has imported TensorFlow.
_WITHOUT_TENSORFLOW = ("absl.app", "numpy")


def alone(module, model, texts, *flags):
    """As `run`, but as a user does, imports and all."""
    done = subprocess.run(
        [sys.executable, "-m", module, f"--model={model}", *flags],
        cwd=processes.ROOT,
        input=_lines(texts),
        capture_output=True,
        env=environment(),
    )
    return _parted(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(module, model, *flags, **streams):
    """Starts `python -m module --model=model ...`; see `processes.start`."""
    return processes.start(
        {"module": module},
        [f"--model={model}", *flags],
        environment=environment(),
        modules=_imports(model),
        **streams,
    )


def run(module, model, texts, *flags):
    """Returns (exit code, lines of stdout, lines of stderr)."""
    done = processes.run(
        {"module": module},
        [f"--model={model}", *flags],
        environment=environment(),
        source=_lines(texts) if isinstance(texts, list) else texts,
        modules=_imports(model),
    )
    return _parted(done.code, done.out, done.raw_err)


def environment():
    return processes.user_environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"}


def _imports(model):
    found = pathlib.Path(model).glob("saved_model.pb")
    versions = pathlib.Path(model).glob("*/saved_model.pb")
    if any(found) or any(versions):
        return _WITHOUT_TENSORFLOW
    return processes.WITH_TENSORFLOW


def _lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def _parted(code, out, raw_err):
    assert out == "" or out.endswith("\n")
    said = processes.Result(code, out, raw_err).err
    return code, out.split("\n")[:-1], said.splitlines()
