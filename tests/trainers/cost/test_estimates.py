"""Seconds, hours and energy, beside what was published and measured."""

import itertools

import numpy as np
import pytest

import keras_transformer as kt
from export.errors import InputError
from trainers.cost import Machine, packed_row, training_cost
from trainers.cost.data import Data
from trainers.cost.devices import DEVICES, cpu, parse
from trainers.cost.memory import Shape
from trainers.cost.published_speeds import cpu_figures, gpu_figures
from trainers.cost.update import LINK_SHARE, ring_seconds, update_time

BASE = kt.TransformerConfig.preset("base")
BIG = kt.TransformerConfig.preset("big")
ROW = packed_row(30, 30, 128)
P100S = Machine(device=DEVICES["P100"], count=8, precision="float32")


@pytest.mark.parametrize("figure", gpu_figures(), ids=lambda each: each.what)
def test_published_gpu_figures(figure):
    assert 1 / 1.5 < figure.ratio < 1.5


@pytest.mark.parametrize("figure", cpu_figures(), ids=lambda each: each.what)
def test_our_measured_cpu_steps(figure):
    assert figure.ratio == pytest.approx(1, abs=0.25)


def bytes_in_a_ring(parts, count):
    """Adds arrays as a ring does; returns what each device sent.

    Each sends one chunk to its neighbour in a step: count - 1 steps in which
    chunks are added up, and as many in which sums are passed on.
    """
    arrays = [list(np.array_split(part, count)) for part in parts]
    expected = np.sum(parts, axis=0)
    sent = 0
    for step, device in itertools.product(range(2 * count - 2), range(count)):
        chunk = (device - step) % count
        moving = arrays[device][chunk]
        sent += moving.nbytes
        neighbour = arrays[(device + 1) % count]
        if step < count - 1:
            neighbour[chunk] = neighbour[chunk] + moving
        else:
            neighbour[chunk] = moving
    for each in arrays:
        np.testing.assert_allclose(np.concatenate(each), expected)
    return sent / count


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_ring_sends_what_a_ring_sends(count):
    random = np.random.default_rng(1)
    parts = random.normal(size=(count, 24))
    sent = bytes_in_a_ring(parts, count)
    seconds = ring_seconds(parts[0].nbytes, 100.0, count)
    assert seconds == pytest.approx(sent / (100.0 * LINK_SHARE))
    assert ring_seconds(1e9, None, 1) == 0


def test_parts_grow_with_what_they_depend_on():
    device = DEVICES["H100"]
    shape = Shape(24, 128, 128, 24 * 128)

    def of(config=BIG, batches=1, precision="mixed_bfloat16", count=8):
        return update_time(config, shape, batches, precision, device, count)

    whole = of()
    assert whole.total == whole.computing > whole.input
    assert of(batches=2).products == 2 * whole.products
    assert of(batches=2).adam == whole.adam
    assert of(precision="float32").products > whole.products
    assert of(count=1).all_reduce == 0
    assert of(BIG.replace(r_drop=5.0)).products == 2 * whole.products
    assert of(BASE).starting == whole.starting


def test_slow_input_is_waited_for():
    # A model of nothing on devices without number: the input alone is left.
    config = kt.TransformerConfig.preset("tiny", num_layers=1, d_model=2)
    device = cpu({"float32": 1e18}, bandwidth=1e18)
    shape = Shape(1e6, 30, 30, 1)
    time = update_time(config, shape, 1, "float32", device, 1)
    assert time.total == time.input == pytest.approx(10.0)


def test_the_papers_trainings():
    base, big = (training_cost(each, P100S, ROW) for each in (BASE, BIG))
    # Section 5.2: 12 hours and 3.5 days; 0.4 and 1.0 s an update.
    assert 12 / 1.5 < base.hours < 12 * 1.5
    assert 84 / 1.5 < big.hours < 84 * 1.5
    # 6 FLOPs a weight and token; attention's scores besides.
    assert base.flops == pytest.approx(6 * 63e6 * 25_000 * 100_000, rel=0.1)
    assert base.kilowatt_hours == pytest.approx(base.hours * 8 * 0.3)
    assert base.price is None


def test_price_and_epochs():
    machine = Machine(
        device=DEVICES["H100"],
        count=8,
        precision="mixed_bfloat16",
        hour_price=2.5,
    )
    cost = training_cost(BASE, machine, ROW)
    assert cost.price == pytest.approx(cost.hours * 20)
    data = Data(4.5e6, 30, 30)
    pairs = data.epochs(cost) * 4.5e6
    assert pairs * 30 == pytest.approx(25_000 * 100_000, rel=0.05)
    assert data.bytes_on_disk(37_000) == 4.5e6 * (2 * 60 + 4)


@pytest.mark.parametrize(
    "means, sides",
    [((30, 30), (128, 128)), ((20, 30), (85, 128)), ((90, 30), (128, 43))],
)
def test_rows_have_the_sides_ratio(means, sides):
    row = packed_row(*means, 128)
    assert (row.source_length, row.target_length) == sides


def test_what_does_not_fit_is_one_clear_line():
    huge = BIG.replace(d_model=16_384, d_ff=65_536)
    with pytest.raises(InputError, match="does not fit into the memory"):
        training_cost(huge, P100S, ROW)
    large = BIG.replace(batch_tokens=1_000_000)
    needed = training_cost(large, P100S, ROW).micro_batches
    assert needed > 1
    assert training_cost(large, P100S, ROW, needed).micro_batches == needed
    with pytest.raises(InputError, match=f"{needed} does"):
        training_cost(large, P100S, ROW, needed - 1)


def test_old_gpus_have_no_bfloat16():
    machine = Machine(
        device=DEVICES["V100"], count=8, precision="mixed_bfloat16"
    )
    with pytest.raises(InputError, match="V100 has no fast products of bfl"):
        training_cost(BASE, machine, ROW)


@pytest.mark.parametrize(
    "text, expected",
    [("8xH100", (8, "H100")), ("h200", (1, "H200")), ("1xcpu", (1, "cpu"))],
)
def test_gpus(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["8xB9000", "x", "0xH100", "-1xH100", "8 H100", "", "1e9xH100"]
)
def test_unknown_gpus_are_one_clear_line(text):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert text in str(caught.value)
