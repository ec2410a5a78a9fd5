"""Table 1 measured: formulas, paths, figures, the page."""

import itertools

import numpy as np
import pytest

from benchmarks.layer_types import layers, paths, report
from benchmarks.layer_types.layers import (
    TYPES,
    LayerSize,
)
from tests.benchmarks.commands import run_alone


@pytest.fixture(name="counts", scope="module")
def fixture_counts():
    return {length: paths.count_layer_types(length) for length in (9, 18)}


@pytest.mark.parametrize("length", [9, 18])
def test_paths_are_as_long_as_the_formulas_say(counts, length):
    found = {each.title: each.layers for each in counts[length]}
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
    assert all(each.layers == each.expected for each in counts[length])


def test_only_recurrent_layers_wait_for_each_position(counts):
    for few, many in zip(*counts.values()):
        recurrent = few.title.startswith("recurrent")
        expected = (9, 18) if recurrent else 2 * (few.operations,)
        assert (few.operations, many.operations) == expected
        assert recurrent or few.operations <= 4


@pytest.mark.parametrize("name", TYPES)
def test_flops_are_those_of_weights_and_of_attention(name):
    length, width = 40, 8
    layer = TYPES[name].layer(width)
    layer.build((1, length, width))
    matrices = [each for each in layer.weights if "bias" not in each.name]
    products = sum(np.prod(each.shape) for each in matrices)
    if name == "full" or name.startswith("restricted"):
        products += 2 * length * width
    assert layers.flops(name, length, width) == 2 * length * products


def test_the_page_of_made_up_times(tmp_path, counts):
    """Attention takes n² d, a convolution n d²."""
    chosen = {name: TYPES[name] for name in ("full", "conv")}
    sizes = [
        LayerSize(*each)
        for each in itertools.product((4, 8), (6, 12, 24), (False, True))
    ]
    seconds, memory = {}, {}
    for size in sizes:
        n, d = size.length, size.width
        full, conv = n * n * d * 1e-3, n * d * d * 1e-3
        # The second round was twice as slow for both.
        if n < 24:
            seconds["full", size] = [full, 2 * full]
            memory["full", size] = 2**20 * n * n
        seconds["conv", size] = [conv, 2 * conv]
        memory["conv", size] = 2**19
    results = report.Results(chosen, sizes, seconds, memory, fit_from=3)
    page = report.write(results, counts, "The command.", tmp_path)
    text = page.read_text(encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
    ]
    [full] = [line for line in lines if "O(n²·d)" in line]
    [conv] = [line for line in lines if "O(k·n·d²)" in line]
    assert full[3:6] == 3 * ["2.00 (6 to 12)"]
    assert full[7] == "1.00 (4 to 8)"
    assert conv[2:4] == 2 * ["1.00 (6 to 24)"]
    assert conv[5:] == ["-", "2.00 (4 to 8)", "2.00 (4 to 8)"]
    assert ["4", "12", "864", "288 ×0.33"] in lines
    assert ["8", "24", "-", "2,304"] in lines


@pytest.mark.slow
def test_the_command_as_a_user_runs_it(tmp_path):
    done = run_alone(
        "complexity",
        *(f"--output_dir={tmp_path}", "--layers=full,separable"),
        *("--widths=8,16", "--lengths=16,32,2048", "--path_lengths=4"),
        *("--rounds=2", "--visit_seconds=0", "--memory_from=32"),
        "--memory_gib=0.03",
    )
    assert done.code == 0, done.err
    text = (tmp_path / "complexity.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| 16 | ")]
    # Forward and both, time and memory, of three lengths.
    assert len(rows) == 12
    assert "| 16 | 2,048 | - |" in text
