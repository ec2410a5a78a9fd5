"""The batching that benchmarks/serving.py simulates, and its figures."""

import concurrent.futures
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.harness.load_test import Batcher, BatchingConfig
from tests import made_up_text
from tests.benchmarks.commands import run_alone
from tests.export import tiny


class Doubler:
    """Doubles numbers, and remembers its batches."""

    def __init__(self):
        self.sizes = []

    def __call__(self, inputs):
        self.sizes.append(len(inputs["x"]))
        if -1 in inputs["x"]:
            raise ValueError("no doubling -1")
        return {"y": 2 * np.array(inputs["x"])}


def ask_all(batcher, requests):
    """All at once, from a thread each."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        asked = [pool.submit(batcher.ask, {"x": each}) for each in requests]
    return [each.result()["y"].tolist() for each in asked]


@pytest.mark.parametrize("threads", [1, 3])
def test_each_request_gets_its_own_rows(threads):
    double = Doubler()
    requests = [[n] * (n % 4 + 1) for n in range(60)]
    with Batcher(double, BatchingConfig(16, 0.01, threads)) as batcher:
        found = ask_all(batcher, requests)
    assert found == [[2 * n for n in each] for each in requests]
    assert max(double.sizes) <= 16
    assert sum(double.sizes) == sum(map(len, requests))
    assert len(double.sizes) < len(requests)


def test_an_error_reaches_every_caller_of_its_batch():
    with Batcher(Doubler(), BatchingConfig(2, 3600.0, 1)) as batcher:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(batcher.ask, {"x": [n]}) for n in (7, -1)]
        for each in asked:
            with pytest.raises(ValueError, match="no doubling"):
                each.result()
        assert ask_all(batcher, [[1], [2]]) == [[2], [4]]


@pytest.mark.slow
def test_batching_serves_many_callers_sooner(tmp_path):
    tiny.write(tmp_path / "m")
    export = [
        *(sys.executable, "-m", "export.saved_model", "--nocheck"),
        *(f"--model_dir={tmp_path / 'm'}", f"--export_dir={tmp_path / 'e'}"),
    ]
    subprocess.run(export, cwd=tiny.ROOT, check=True, capture_output=True)
    text = tmp_path / "text"
    text.write_text("\n".join(made_up_text.sentences()), encoding="utf-8")
    arguments = [f"--export={tmp_path / 'e'}", f"--text={text}"]
    done = run_alone("serving", "--seconds=16", *arguments)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[2:]]
    assert len(rows) == 3
    for row in rows:
        assert row[7] == "0"
        assert float(row[8]) < 150
    # Of processor time, since others may be using the machine.
    assert float(rows[1][-1]) >= 3, done.out
