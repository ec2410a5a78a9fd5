"""Commands on lines, as users run them."""

import os
import re
import subprocess
import sys

from tests.export import tiny


def start(module, model, *flags, **streams):
    """Starts `python -m module --model=model ...`."""
    return subprocess.Popen(
        [sys.executable, "-m", module, f"--model={model}", *flags],
        cwd=tiny.ROOT,
        stdin=streams.pop("stdin", subprocess.PIPE),
        stdout=streams.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def run(module, model, texts, *flags):
    """Returns (exit code, lines of stdout, lines of stderr)."""
    process = start(module, model, *flags)
    text = "".join(f"{text}\n" for text in texts)
    out, err = process.communicate(text.encode())
    assert out == b"" or out.endswith(b"\n")
    lines = out.decode().split("\n")[:-1]
    return process.returncode, lines, said(err.decode())


def said(err):
    """What the command says, without TensorFlow's own notes."""
    notes = re.compile(r"WARNING: All log|[IWE]\d{4} ")
    return [line for line in err.splitlines() if not notes.match(line)]
