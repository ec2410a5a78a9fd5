"""Starts the command as a user does, and looks at what it wrote."""

import subprocess
import sys
import time

from tests.processes import ROOT, user_environment


def start(text, model_path, output, *flags):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "trainers.synthesize"),
            *(f"--text={text}", f"--model={model_path}"),
            *("--source_language=aa", "--target_language=bb"),
            *("--decoding=sample", "--word_drop=0.1", "--shard_lines=25"),
            *(f"--output_dir={output}", *flags),
        ],
        cwd=ROOT,
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(holds, what):
    """Waits until a function returns something true."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def count_shards(output):
    return len([*output.glob("shards/*.jsonl")])
