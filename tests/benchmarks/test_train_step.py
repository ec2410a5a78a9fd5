"""The benchmark of a training step, run as a user runs it."""

import collections
import contextlib
import dataclasses
import importlib.util
import itertools
import math
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import keras_transformer as kt
from benchmarks.harness import report
from benchmarks.harness.report import ratio, spread
from benchmarks.harness.systems import choose
from benchmarks.harness.turns import Watch
from benchmarks.training_step.job import (
    DEFAULT_TABLE,
    StepJob,
    make_mixed_batches,
    make_sorted_batches,
    read_lengths,
)
from benchmarks.training_step.measure import StepRun
from benchmarks.training_step.report import StepResult, table
from benchmarks.training_step.systems import SYSTEMS
from benchmarks.training_step.work import pack
from export.errors import InputError
from trainers.cost.flops import (
    attention_products,
    flops,
    step_products,
    weight_products,
)

ROOT = pathlib.Path(__file__).parents[2]
LENGTHS = "source,target,pairs\n3,4,30\n4,2,10\n9,7,5\n"


def run(*arguments):
    return subprocess.run(
        [sys.executable, "benchmarks/train_step.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.fixture(name="lengths")
def fixture_lengths(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text(LENGTHS, encoding="utf-8")
    return path


def tiny_run(lengths, output, systems, *more):
    done = run(
        "--size=tiny",
        "--device=cpu",
        "--rounds=2",
        "--warm_up=1",
        "--visit_seconds=0",
        "--tokens=64",
        "--shapes=2",
        f"--lengths={lengths}",
        f"--systems={systems}",
        f"--output={output}",
        *more,
    )
    assert done.returncode == 0, done.stderr
    text = output.read_text(encoding="utf-8")
    assert text == done.stdout
    return text


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--noalone", "--alone"])
def test_the_table_of_our_step_and_the_products(tmp_path, lengths, way):
    output = tmp_path / "new" / "table.md"
    text = tiny_run(lengths, output, "ours,products", way)
    header, rule, ours, products = map(cells, text.splitlines()[:4])
    assert len(header) == len(rule) == len(ours) == len(products) == 12
    by_name = dict(zip(header, ours))
    tiny = kt.Transformer(kt.TransformerConfig.preset("tiny"))
    assert by_name["parameters"] == f"{tiny.count_params():,}"
    loss = float(by_name["loss at step 0"])
    assert math.log(4000) - 0.1 < loss < math.log(4000) + 1.5
    seconds = float(by_name["seconds a step"])
    rate = float(
        by_name["target tokens/s (quartiles)"].split()[0].replace(",", "")
    )
    tokens = seconds * rate
    # A batch's real tokens; medians over rounds are not exactly inverse.
    assert 25 < tokens < 64
    assert by_name["ours / it (quartiles)"] == "-"
    share = by_name["of the products' rate"]
    assert re.fullmatch(r"[\d.]+ \([\d.]+–[\d.]+\)", share)
    assert dict(zip(header, products))["parameters"] == "-"
    assert "--tokens=64" in text
    assert "3 of 16 x 4 and 4, 1 of 5 x 9 and 9" in text


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["keras-hub", "transformers", "torch"])
def test_a_peer_computes_the_same_things(tmp_path, lengths, peer):
    package = peer.replace("-", "_")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (requirements-bench.txt)")
    text = tiny_run(lengths, tmp_path / "table.md", f"ours,{peer}")
    header, _, ours, other = map(cells, text.splitlines()[:4])
    ours, other = dict(zip(header, ours)), dict(zip(header, other))
    counts = [int(row["parameters"].replace(",", "")) for row in (ours, other)]
    assert counts[1] == pytest.approx(counts[0], rel=0.001)
    losses = [float(row["loss at step 0"]) for row in (ours, other)]
    assert losses[1] == pytest.approx(losses[0], abs=0.3)
    assert re.match(r"[\d.]+ \(", other["ours / it (quartiles)"])


def test_flops_are_six_a_weight_and_position():
    config = kt.TransformerConfig.preset("base")
    rows, source, target = 3, 7, 5
    # Section 3: N = 6, d_model 512, d_ff 2048, V 37,000. A layer has four
    # projections in each attention and two matrices in its feed-forward.
    attention, feed_forward = 4 * 512**2, 2 * 512 * 2048
    encoder = 6 * (attention + feed_forward)
    decoder = 6 * (attention + feed_forward + attention / 2)
    keys_and_values = 6 * attention / 2
    by_hand = 6 * (
        rows * source * (encoder + keys_and_values)
        + rows * target * (decoder + 512 * 37_000)
    )
    assert flops(weight_products(config, rows, source, target)) == by_hand
    # Scores and their use: 2 products of 8 heads of 64, 6 layers, 3 kinds.
    pairs = source**2 + target**2 + target * source
    by_hand_attention = 3 * 2 * 2 * 6 * 8 * 64 * rows * pairs
    sizes = (config, rows, source, target)
    assert flops(attention_products(*sizes)) == by_hand_attention
    assert flops(step_products(*sizes)) == by_hand + by_hand_attention


@pytest.mark.parametrize("decoder_layers", [0, 1])
def test_every_matrix_is_counted_once(decoder_layers):
    config = kt.TransformerConfig.preset(
        "tiny",
        d_k=16,
        d_v=8,
        num_layers=3,
        num_decoder_layers=decoder_layers,
    )
    model = kt.Transformer(config)
    matrices = sum(
        math.prod(weight.shape)
        for weight in model.trainable_variables
        if len(weight.shape) == 2
    )
    assert flops(weight_products(config, 1, 1, 1)) == 6 * matrices


def test_batches_hold_real_lengths_and_no_text(lengths):
    batches = make_sorted_batches(*read_lengths(lengths), 50, 64, 2)
    assert [batch.source.shape for batch in batches] == [(16, 4), (5, 9)]
    assert [batch.weight for batch in batches] == [3, 1]
    for batch in batches:
        real = batch.labels != 0
        lengths_of_rows = real.sum(axis=1)
        rows = np.arange(len(real))
        assert (batch.labels[rows, lengths_of_rows - 1] == 3).all()
        assert (batch.target[:, 0] == 2).all()
        shifted = batch.target[:, 1:][real[:, 1:]]
        assert (shifted == batch.labels[:, :-1][real[:, 1:]]).all()
        assert batch.source.max() < 50
    assert batches[1].target_tokens == 35
    # To the workers they go through a pipe.
    for ours, theirs in zip(
        batches, pickle.loads(pickle.dumps(batches)), strict=True
    ):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        assert ours.weight == theirs.weight


def test_mixed_batches_take_the_pairs_as_they_come():
    random = np.random.default_rng(5)
    source, target = random.integers(2, 30, (2, 500))
    batches = make_mixed_batches(source, target, 50, 200, 3)
    seen = []
    for batch in batches:
        lengths = [
            (side != 0).sum(axis=1) for side in (batch.source, batch.labels)
        ]
        assert [side.max() for side in lengths] == [
            batch.source.shape[1],
            batch.labels.shape[1],
        ]
        rows, longest = len(batch.source), max(map(np.max, lengths))
        # Pairs are of 29 at most.
        assert rows >= 200 // 29
        assert rows * longest <= 200
        assert np.ptp(lengths[1]) > 3
        seen += zip(*(side.tolist() for side in lengths))
    left = collections.Counter(zip(source.tolist(), target.tolist()))
    assert not collections.Counter(seen) - left


def test_packing_keeps_every_pair():
    [batch] = make_mixed_batches(*read_lengths(DEFAULT_TABLE), 50, 1024, 1)
    inputs, labels = pack(batch)
    assert (labels != 0).sum() == batch.target_tokens
    assert labels.size < 1.3 * batch.target_tokens < batch.labels.size
    packed = collections.Counter()
    for row, segments in enumerate(inputs["target_segments"]):
        for segment in range(1, segments.max() + 1):
            packed[
                tuple(
                    inputs["source"][row][
                        inputs["source_segments"][row] == segment
                    ]
                ),
                tuple(labels[row][segments == segment]),
            ] += 1
    assert packed == collections.Counter(
        (tuple(source[source != 0]), tuple(target[target != 0]))
        for source, target in zip(batch.source, batch.labels)
    )


@pytest.mark.parametrize("shapes", [1, 2, 3, 9])
def test_no_other_buckets_make_less_padding(shapes):
    random = np.random.default_rng(shapes)
    source, target = random.integers(2, 9, (2, 40))
    longer = np.maximum(source, target)
    batches = make_sorted_batches(source, target, 50, 1000, shapes)
    # All pairs of a bucket are in its one batch.
    assert sum(len(batch.source) for batch in batches) == 40
    positions = sum(batch.source.size for batch in batches)
    every = [
        sum(np.append(lower, 8)[np.searchsorted(lower, longer)])
        for count in range(shapes)
        for lower in itertools.combinations(range(2, 8), count)
    ]
    assert positions == min(every)


def test_the_table_of_lengths_is_whole():
    source, target = read_lengths(DEFAULT_TABLE)
    assert len(source) == len(target) == 169_813
    assert source.min() >= 2
    assert target.min() >= 2


def test_a_ratio_is_taken_round_by_round():
    # The second round was twice as slow for both.
    assert ratio([100.0, 50.0, 90.0], [50.0, 25.0, 45.0]) == spread([2.0])
    values = spread([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (values.low, values.median, values.high) == (2.0, 3.0, 4.0)


def result(name, parameters):
    return StepResult(name, "x", parameters, 1.0, [1.0], [1.0], 1e9, 10.0, 1)


@pytest.mark.parametrize(
    "parameters, expected",
    [(1020, "1.000 (1.000–1.000)"), (1021, "none: 2.1% other size")],
)
def test_no_ratio_to_a_model_of_another_size(parameters, expected):
    lines = table([result("ours", 1000), result("peer", parameters)])
    assert cells(lines.splitlines()[-1])[7] == expected


def test_the_share_of_a_peak_is_of_the_median():
    rounds = [1.0, 2.0, 4.0]
    ours = StepResult("ours", "x", 1000, 1.0, rounds, rounds, 1e9, 10.0, 1)
    header, _, row = table([ours], peak=2e9).splitlines()
    by_name = dict(zip(cells(header), cells(row)))
    assert by_name["of the GPU's peak"] == "0.250"
    header, _, row = table([ours]).splitlines()
    assert dict(zip(cells(header), cells(row)))["of the GPU's peak"] == "-"


@pytest.mark.parametrize(
    "name, precision, peak",
    [
        ("NVIDIA H100 80GB HBM3", "mixed_bfloat16", 989.5e12),
        ("NVIDIA H100 80GB HBM3", "float32", 494.5e12),
        ("NVIDIA A100-SXM4-80GB", "mixed_bfloat16", 312e12),
        ("Tesla V100-SXM2-16GB", "mixed_bfloat16", None),
        ("Another Card", "float32", None),
        (None, "float32", None),
    ],
)
def test_a_peak_is_that_of_the_datasheet(monkeypatch, name, precision, peak):
    monkeypatch.setattr(report, "gpu_name", lambda: name)
    assert report.gpu_peak(precision) == peak


class MeetingWorker:
    """Those of PyTorch wait for one another; the other must come before."""

    came = []

    def __init__(self, name, barrier):
        self.name, self._barrier = name, barrier

    def __enter__(self):
        if self.name != "ours":
            assert "ours" in self.came
            self._barrier.wait(timeout=30)
        self.came.append(self.name)
        return self

    def __exit__(self, *_):
        pass

    def warm_up(self, shape):
        return float(shape)


def test_on_a_gpu_systems_of_pytorch_start_at_once(monkeypatch):
    barrier = threading.Barrier(2)
    monkeypatch.setattr(
        StepRun, "_worker", lambda self, name: MeetingWorker(name, barrier)
    )
    names = ["torch", "ours", "transformers"]
    chosen = {name: SYSTEMS["jax"][name] for name in names}
    chosen["ours"] = dataclasses.replace(chosen["ours"], keras_backend="jax")
    [batch] = make_mixed_batches(np.array([3]), np.array([4]), 50, 8, 1)
    config = kt.TransformerConfig.preset("tiny")
    job = StepJob(config, "float32", "gpu", [batch], 1)
    run_ = StepRun(chosen, job, 1, 1, 0.0, Watch(1))
    with contextlib.ExitStack() as stack:
        started = run_._started(stack)
    assert sorted(started) == sorted(names)
    assert {name: worker.name for name, (worker, _) in started.items()} == {
        name: name for name in names
    }


@pytest.mark.slow
def test_a_wrong_flag_is_one_line(tmp_path):
    missing = tmp_path / "none.csv"
    done = run("--size=tiny", f"--lengths={missing}")
    assert done.returncode == 2
    assert f"Cannot use {missing}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_system_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="no system 'theirs'"):
        choose(SYSTEMS, "tensorflow", ["theirs"])
    with pytest.raises(InputError, match="tensorflow or jax"):
        choose(SYSTEMS, "openvino", [])


@pytest.mark.parametrize(
    "text", ["", "source,target\n1,2\n", LENGTHS + "0,1,1\n", LENGTHS + "x\n"]
)
def test_what_is_no_table_of_lengths_is_refused(tmp_path, text):
    path = tmp_path / "lengths.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="source,target,pairs"):
        read_lengths(path)
