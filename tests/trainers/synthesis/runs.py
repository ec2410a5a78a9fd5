"""The command, as a user starts it, and what it leaves."""

import subprocess
import sys

from tests.processes import ROOT, user_environment


def start(text, model_path, output, *flags):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "trainers.synthesize"),
            *(f"--text={text}", f"--model={model_path}"),
            *("--source_language=aa", "--target_language=bb"),
            *("--decoding=sample", "--word_drop=0.1", "--shard_lines=50"),
            *(f"--output_dir={output}", *flags),
        ],
        cwd=ROOT,
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards_in(output):
    return len([*output.glob("shards/*.jsonl")])
