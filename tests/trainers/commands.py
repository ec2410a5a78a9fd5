"""`python -m trainers.wmt` as a process, and many of it in one process."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from tests.trainers import cipher

ROOT = pathlib.Path(__file__).parents[2]

# A model so small that a step takes milliseconds, and one padded length, so
# that little is compiled.
MINUTE = (
    f"--source_language={cipher.SOURCE}",
    f"--target_language={cipher.TARGET}",
    "--set=vocabulary_size=64",
    "--set=num_layers=1",
    "--set=d_model=16",
    "--set=d_ff=16",
    "--set=num_heads=2",
    "--set=d_k=8",
    "--set=d_v=8",
    "--set=warmup_steps=40",
    "--set=dropout=0.1",
    "--set=max_output_extra=4",
    "--set=beam_size=2",
    "--batch_tokens=128",
    "--average_checkpoints=0",
    "--shapes=1",
    # Its search alone takes a second to trace.
    "--attention_steps=0",
)
# TensorFlow says these before its log level counts.
_NOISE = re.compile(
    r"(WARNING: All log messages before|[IWE]0000 |To enable the follow).*\n?"
)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended.

    Attributes:
        code: exit code.
        out: its standard output.
        err: its standard error, without TensorFlow's start-up notes.
        raw_err: its standard error.
    """

    code: int
    out: str
    raw_err: str

    @property
    def err(self) -> str:
        return _NOISE.sub("", self.raw_err)


def environment() -> dict[str, str]:
    """A user's environment: nothing of the test run's own settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TF_", "PYTHONWARNINGS"))
    }
    return kept | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}


def start(*arguments, folder, **options) -> subprocess.Popen:
    """Starts the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "trainers.wmt", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=_heed_interrupts,
        **options,
    )


def _heed_interrupts():
    # A shell starts what runs in its background with SIGINT ignored, and the
    # tests may run there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen) -> Result:
    """Waits for a started command."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return Result(process.returncode, out, err)


def wmt(*arguments, folder) -> Result:
    """Runs the command in a process of its own."""
    return finish(start(*arguments, folder=folder))


def assert_one_clear_line(result: Result, message: str) -> None:
    """It failed as an InputError does, and said what the pattern says."""
    assert "Traceback" not in result.raw_err
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("Error: ")
    assert re.search(message, line)


class Worker:
    """A process that runs one command again and again."""

    def __init__(self, module="trainers.wmt") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trainers.command_worker", module],
            cwd=ROOT,
            env=environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What it says itself is TensorFlow's start-up notes.
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def run(self, *arguments, folder) -> Result:
        """Runs the command; the same code as in a process of its own."""
        assert self._process.stdin and self._process.stdout
        order = {"arguments": arguments, "folder": str(folder)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return Result(answer["code"], answer["out"], answer["err"])

    wmt = run

    def close(self) -> None:
        # It has nothing to lose, and TensorFlow may take its time to exit.
        self._process.kill()
        self._process.communicate()
