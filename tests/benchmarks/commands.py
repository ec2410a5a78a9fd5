"""What tests of the benchmarks share: commands, tables, model directories."""

import subprocess
import sys

from export.model_directory import ModelDirectory
from tests import made_up_text, processes

# What MarianMTModel is, and what can be widened.
POST = {"norm": "post", "share_embeddings": "all", "length_penalty": "power"}


def run_alone(script, *arguments):
    """Runs a command of benchmarks/ as a user does, imports and all."""
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", *arguments],
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return processes.Result(done.returncode, done.stdout, done.stderr)


def run(script, *arguments):
    """Runs a command of benchmarks/ in a process of its own."""
    path = processes.ROOT / "benchmarks" / f"{script}.py"
    return processes.run({"path": str(path)}, arguments)


def rows_of(page):
    """Returns the rows of a page's first table, dicts by its header."""
    lines = page.strip().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    header, _, *rows = cells
    return [dict(zip(header, row, strict=True)) for row in rows]


def write(path, made):
    """Writes a model directory with the made-up vocabulary."""
    directory = ModelDirectory(path)
    directory.write_config(made.config)
    directory.write_run({"dataset": "made up"})
    directory.write_vocabulary(made_up_text.vocabulary())
    directory.write_weights(made)
