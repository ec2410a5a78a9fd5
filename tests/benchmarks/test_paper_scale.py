"""The simulation of large corpora, run as a user runs it."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["pack", "length"])
def test_a_small_corpus(batching):
    done = subprocess.run(
        [
            sys.executable,
            "benchmarks/paper_scale.py",
            "--pairs=20000",
            "--source_mean=20",
            "--target_mean=20",
            f"--batching={batching}",
            "--tokens=4096",
            "--step=1000",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| the batch of update 1,000 |" in done.stdout
    pairs, tokens, batches = re.search(
        r"([\d,]+) pairs, ([\d,]+) tokens; ([\d,]+) batches", done.stdout
    ).groups()
    assert pairs == "20,000"
    tokens, batches = (int(each.replace(",", "")) for each in (tokens, batches))
    # Lengths end at 256, which takes a little of the mean.
    assert tokens == pytest.approx(20_000 * 40, rel=0.03)
    assert tokens / batches < 2 * 4096
