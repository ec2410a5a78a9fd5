"""What the tests of decoding and of widening share."""

import pathlib
import subprocess
import sys

from export.model_directory import ModelDirectory
from tests import made_up_text

ROOT = pathlib.Path(__file__).parents[2]
# What MarianMTModel is, and what can be widened.
POST = {"norm": "post", "share_embeddings": "all", "length_penalty": "power"}


def run(script, *arguments):
    """Runs a command of benchmarks/ as a user does."""
    return subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def write(path, made):
    """Writes a model directory with the made-up vocabulary."""
    directory = ModelDirectory(path)
    directory.write_config(made.config)
    directory.write_run({"dataset": "made up"})
    directory.write_vocabulary(made_up_text.vocabulary())
    directory.write_weights(made)
