"""Table 1 measured: formulas, paths, what is kept, what is written."""

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from benchmarks.harness.turns import timed
from benchmarks.layer_types import layers, measure, paths, report
from benchmarks.layer_types.figure import log_log_svg
from benchmarks.layer_types.measure import (
    LayerJob,
    LayerRun,
    LayerSize,
    Measured,
    ResultStore,
)
from benchmarks.layer_types.memory import MemoryProbe
from benchmarks.layer_types.results import Results, fitted_exponent
from export.errors import InputError
from tests.benchmarks.decoding import run, run_alone

TYPES = layers.TYPES["tensorflow"]


@pytest.fixture(name="counted", scope="module")
def fixture_counted():
    return {length: paths.count_layer_types(length) for length in (9, 18)}


@pytest.mark.parametrize("length", [9, 18])
def test_paths_are_as_long_as_the_formulas_say(counted, length):
    found = {each.title: each.layers for each in counted[length]}
    assert found == {
        "self-attention": 1,
        "recurrent, GRU": 1,
        "recurrent, LSTM": 1,
        "convolution, k = 3": length - 1,
        "convolution, k = 3, causal": {9: 4, 18: 9}[length],
        "separable, k = 3": length - 1,
        "restricted, r = 8": {9: 1, 18: 3}[length],
        "convolution, k = 3, causal, dilated": {9: 2, 18: 3}[length],
    }
    assert all(each.layers == each.expected for each in counted[length])


def test_only_recurrent_layers_wait_for_each_position(counted):
    for few, many in zip(*counted.values()):
        recurrent = few.title.startswith("recurrent")
        expected = (9, 18) if recurrent else 2 * (few.operations,)
        assert (few.operations, many.operations) == expected
        assert recurrent or few.operations <= 4


def test_paths_beside_a_change_of_one_input():
    """In a stack of L restricted layers it reaches L r positions."""
    window, length = 3, 20
    stack = [
        layers.self_attention(4, window=window, dtype="float64")
        for _ in range(8)
    ]
    assert paths.path_length(stack, length) == 7
    assert paths.path_length(stack[:6], length) is None
    states = np.random.default_rng(3).normal(size=(1, length, 4))
    changed = states.copy()
    changed[0, 0] += 1.0
    for number, layer in enumerate(stack, 1):
        states, changed = layer(states), layer(changed)
        difference = np.abs(changed - states).max(axis=(0, 2))
        reached = np.arange(length) <= number * window
        if number <= 4:
            np.testing.assert_array_equal(difference > 1e-12, reached)


@pytest.mark.parametrize("name", TYPES)
def test_products_are_those_with_weights_and_of_attention(name):
    length, width = 40, 8
    layer = TYPES[name].layer(width)
    layer.build((1, length, width))
    matrices = [each for each in layer.weights if "bias" not in each.name]
    products = sum(np.prod(each.shape) for each in matrices)
    if name == "full" or name.startswith("restricted"):
        products += 2 * length * width
    assert TYPES[name].flops(length, width) == 2 * length * products


def test_a_window_is_counted_where_it_is_shorter():
    flops = TYPES["restricted-64"].flops
    assert flops(1000, 8) == 8 * 1000 * 64 + 4 * 1000 * 129 * 8


def test_exponents_beside_numpy():
    xs, ys = [64, 128, 256, 1024], [0.1, 0.3, 0.7, 9.0]
    slope = np.polyfit(np.log(xs), np.log(ys), 1)[0]
    assert fitted_exponent(list(zip(xs, ys))) == pytest.approx(slope)
    assert fitted_exponent([(64, 0.1)]) is None
    assert fitted_exponent([]) is None


class InProcess:
    """Stands for a Worker."""

    started: list = []

    def __init__(self, name, system, job):
        self.name, self.system, self._job = name, system, job
        self._peer = system.make(job)
        self.started.append(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def warm_up(self, *what):
        self._job.warm_up(self._peer, *what)

    def visit(self, *what):
        return timed(self._job.calls(self._peer, *what))

    def peak_bytes(self):
        return 2**31


class OneMebibyte:
    def taken_bytes(self, _, size):
        return 2**20 * size.length


@pytest.fixture(name="tiny_run")
def fixture_tiny_run(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "Worker", InProcess)
    monkeypatch.setattr(InProcess, "started", [])

    def make(names=tuple(TYPES), lengths=(6, 12), **changes):
        settings = {
            "sizes": [
                LayerSize(4, length, both)
                for length in lengths
                for both in (False, True)
            ],
            "cells": ResultStore(tmp_path / "complexity" / "cells.jsonl"),
            "job": LayerJob(1),
            "rounds": 2,
            "at_least": 0.0,
            "most_seconds": 1e9,
            "memory": 2**30,
            "memory_from": 12,
            "probe": OneMebibyte(),
            "tries": 1,
        }
        chosen = {name: TYPES[name] for name in names}
        return LayerRun(chosen, **settings | changes)

    return make


def test_every_layer_is_measured_and_the_page_written(
    tmp_path, tiny_run, counted
):
    made = tiny_run()
    assert made.run() == {}
    assert len(made.cells.sizes) == 4
    for size, found in made.cells.sizes.items():
        assert list(found) == list(TYPES)
        for each in found.values():
            assert len(each.seconds) == 2 and min(each.seconds) > 0
            assert each.bytes == (12 * 2**20 if size.length == 12 else None)
    results = Results(made.chosen, made.sizes, made.cells, 6)
    assert results.visits == 4 * 2 * len(TYPES)
    left_out = {("lstm", LayerSize(4, 24, True)): "a call would take long"}
    page = report.write(results, counted, left_out, "The command.", tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "recurrent, LSTM, d = 4, n = 24, forward + backward: a call" in text
    assert text.endswith("The command.\n")
    for name in re.findall(r"\]\((.*?)\)", text):
        ET.fromstring((tmp_path / name).read_text(encoding="utf-8"))
    (row,) = [line for line in text.splitlines() if "O(k·n·d²)" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2] == "1.00 (6 to 12)"
    # One length has its memory, one width its time.
    assert cells[5:] == ["-", "-", "-"]
    table = text.split("### Time, forward\n")[1].split("###")[0]
    first = table.strip().splitlines()[2].strip("| ").split(" | ")
    lstm = made.cells.sizes[LayerSize(4, 6, False)]["lstm"].seconds
    full = made.cells.sizes[LayerSize(4, 6, False)]["full"].seconds
    shares = [one / other for one, other in zip(lstm, full)]
    assert first[:2] == ["4", "6"]
    seconds, share = first[4].split(" ×")
    assert float(seconds) == pytest.approx(1000 * np.mean(lstm), rel=0.01)
    assert float(share) == pytest.approx(np.mean(shares), abs=0.006)


def test_a_stopped_run_goes_on(tmp_path, tiny_run, monkeypatch):
    names = ("full", "conv")
    whole, add = tiny_run(names), ResultStore.add

    def stop_at_third(cells, *what):
        if len(cells.sizes) == 2:
            raise KeyboardInterrupt
        add(cells, *what)

    monkeypatch.setattr(ResultStore, "add", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        whole.run()
    monkeypatch.undo()
    monkeypatch.setattr(measure, "Worker", InProcess)
    kept = dict(whole.cells.sizes)
    again = tiny_run(names)
    assert again.cells.sizes == kept and len(kept) == 2
    again.run()
    assert len(again.cells.sizes) == 4
    assert {size: again.cells.sizes[size] for size in kept} == kept
    InProcess.started.clear()
    assert tiny_run(("conv",)).run() == {}
    assert InProcess.started == []


def test_processes_that_hold_much_start_anew(tiny_run):
    tiny_run(("conv",)).run()
    assert InProcess.started == 4 * ["conv"]


def test_what_would_not_fit_is_left_out_with_the_reason(tiny_run):
    names = ("full", "conv")
    run = tiny_run(names, lengths=(6, 600), memory=2**20, most_seconds=0.0)
    left_out = run.run()
    assert {size.length for _, size in left_out} == {600}
    assert len(left_out) == 4
    both = LayerSize(4, 600, True)
    assert left_out["full", both] == (
        "its scores and weights would take 0.0 GiB, more than 0.0"
    )
    assert left_out["conv", both].startswith("a call would take some ")
    assert "full" not in run.cells.sizes.get(both, {})


def test_time_is_foretold_from_the_next_shorter_length(tmp_path, tiny_run):
    run = tiny_run(("full", "gru"), most_seconds=10.0)
    for length, seconds in ((16, 3.0), (8, 900.0)):
        one = {name: Measured([seconds], None) for name in run.chosen}
        run.cells.sizes[LayerSize(4, length, True)] = one
    at = run._reason_against
    assert at("gru", LayerSize(4, 48, True)) == ""
    assert at("gru", LayerSize(4, 64, True)).startswith("a call would take")
    assert "some 12 s, more than 10" in at("full", LayerSize(4, 32, True))
    assert at("full", LayerSize(4, 32, False)) == ""
    assert at("full", LayerSize(8, 32, True)) == ""
    assert at("full", LayerSize(4, 16, True)) == ""


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "did not write"),
        ("[]", "did not write"),
        ('{"width": 4}', "did not write"),
        (
            '{"width": 4, "length": 6, "both": true, "cpu": "another", '
            '"disturbed": 0, "visits": 2, "layers": {}}',
            "times of another processor, another",
        ),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, line, message):
    path = tmp_path / "cells.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        ResultStore(path)


def test_a_figure_has_its_points_where_they_belong():
    series = {
        "first": [(64, 1e-3), (128, 1e-2), (256, 1e-1)],
        "nothing": [],
        "close & by": [(64, 2e-3), (256, 1.01e-1)],
    }
    svg = log_log_svg("Time", ("n", "time"), series, "10^{}".format)
    root = ET.fromstring(svg)
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert {"64", "128", "256", "10^-3", "10^0", "first"} <= set(texts)
    assert "close & by" in texts and "nothing" not in texts
    lines = [
        [tuple(map(float, pair.split())) for pair in path[1:].split("L")]
        for path in re.findall(r' d="(M[^"zHVhv]*L[^"zHVhv]*)" fill', svg)
    ]
    first = lines[0]
    steps = np.diff(np.array(first), axis=0)
    np.testing.assert_allclose(steps[0], steps[1], atol=0.11)
    assert steps[0, 0] > 50 and steps[0, 1] < -50
    names = {each.text: each.get("y") for each in root.iter()}
    assert abs(float(names["first"]) - float(names["close & by"])) >= 15
    assert "prefers-color-scheme:dark" in svg


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--lengths=64,x", "must be whole numbers above 1"),
        ("--layers=rnn", "There is no system 'rnn' on tensorflow"),
        ("--passes=backward", "--passes has 'backward'"),
    ],
)
def test_wrong_flags_are_refused(tmp_path, flag, message):
    done = run("complexity", f"--output_dir={tmp_path}", flag)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_memory_of_attention_grows_with_the_square():
    sizes = [LayerSize(64, length, True) for length in (1024, 2048, 4096)]
    with MemoryProbe() as probe:
        taken = {
            name: [probe.taken_bytes(TYPES[name], size) for size in sizes]
            for name in ("full", "restricted-64")
        }
    for name, most in (("full", 5), ("restricted-64", 2.5)):
        for less, more in itertools.pairwise(taken[name]):
            assert most - 2 < more / less < most, taken
    # Scores, weights and their gradients.
    assert 3 < taken["full"][-1] / (4 * 4096**2) < 4.5


@pytest.mark.slow
def test_the_command_as_a_user_runs_it(tmp_path):
    arguments = (
        f"--output_dir={tmp_path}",
        "--layers=full,separable",
        "--widths=8,16",
        "--lengths=16,32",
        "--path_lengths=4",
        "--rounds=2",
        "--visit_seconds=0",
        "--memory_from=32",
    )
    done = run_alone("complexity", *arguments)
    assert done.code == 0, done.err
    assert "separable: starting" in done.err
    assert f"Wrote {tmp_path / 'complexity.md'}." in done.out
    kept = (tmp_path / "complexity" / "cells.jsonl").read_text("utf-8")
    assert len(kept.splitlines()) == 8
    again = run_alone("complexity", *arguments)
    assert "starting" not in again.err
    assert (tmp_path / "complexity" / "cells.jsonl").read_text("utf-8") == kept
