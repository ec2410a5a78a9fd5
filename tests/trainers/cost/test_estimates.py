"""Seconds, memory and energy against published and measured figures."""

import dataclasses

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from trainers.cost.cost_estimate import (
    INPUT,
    LAUNCH,
    LINK_UTILIZATION,
    MEMORY_UTILIZATION,
    MicroBatchShape,
    activation_bytes,
    largest_rows,
    memory_by_component,
    needed_micro_batches,
    packed_row,
    ring_seconds,
    step_seconds,
    total_seconds,
    training_cost,
)
from trainers.cost.devices import DEVICES, cpu_device, parse_gpus

BASE = kt.TransformerConfig.preset("base")
BIG = kt.TransformerConfig.preset("big")
ROW = packed_row(30, 30, 128)
P100S = (ROW, DEVICES["P100"], 8, "float32")
GIB = 2**30


# Preset, vocabulary, number and name of GPUs, target tokens of each (with as
# many source tokens), seconds of an update; docs/measured/scaling.md has the
# sources.
PUBLISHED = (
    ("base", 37_000, 8, "P100", 3125, 0.4),
    ("big", 37_000, 8, "P100", 3125, 1.0),
    ("big", 33_708, 1, "V100", 2560, 0.293),
    ("big", 33_708, 8, "V100", 2560, 0.345),
    ("big", 33_708, 1, "V100-32GB", 5120, 0.521),
    ("big", 33_708, 16, "V100-32GB", 5120, 0.601),
    ("big", 33_708, 1, "A100-40GB", 10_240, 0.201),
    ("big", 33_708, 8, "A100-40GB", 10_240, 0.235),
    ("base", 30_000, 4, "V100", 3500, 0.192),
)


def test_predictions_are_near_the_published_updates():
    for preset, vocabulary, count, gpu, tokens, seconds in PUBLISHED:
        config = kt.TransformerConfig.preset(preset, vocabulary_size=vocabulary)
        # A mean length of WMT's; only attention scores depend on it.
        shape = MicroBatchShape(tokens / 30, 30, 30, tokens)
        parts = step_seconds(config, shape, "float32", 1, DEVICES[gpu], count)
        assert total_seconds(parts) == pytest.approx(seconds, rel=0.25), gpu


def test_predictions_are_near_our_measured_cpu_updates():
    # Batch of benchmarks/train_step.py, FLOP/s of its products and seconds,
    # from docs/measured.
    for preset, shape, rate, seconds in (
        ("base", MicroBatchShape(16, 115, 111, 1760), 418e9, 1.917),
        ("base", MicroBatchShape(196, 20, 19, 1760), 191e9, 6.806),
        ("tiny", MicroBatchShape(16, 65, 63, 995), 214e9, 0.0776),
        ("big", MicroBatchShape(8, 82, 78, 614), 289e9, 3.826),
    ):
        config = kt.TransformerConfig.preset(preset)
        device = cpu_device({"float32": rate})
        parts = step_seconds(config, shape, "float32", 1, device, 1)
        assert total_seconds(parts) == pytest.approx(seconds, rel=0.25)


def test_a_ring_sends_each_part_twice():
    # Each of 4 devices passes on a quarter of the bytes in each of 6 steps.
    seconds = ring_seconds(1e9, 100.0, 4)
    assert seconds == pytest.approx(6 * 1e9 / 4 / (100.0 * LINK_UTILIZATION))
    assert ring_seconds(1e9, None, 1) == 0


def test_parts_of_an_update_scale_with_their_inputs():
    shape = MicroBatchShape(24, 128, 128, 24 * 128)

    def seconds(config=BIG, batches=1, precision="mixed_bfloat16", count=8):
        return step_seconds(
            config, shape, precision, batches, DEVICES["H100"], count
        )

    parts, two = seconds(), seconds(batches=2)
    assert total_seconds(parts) == sum(parts.values()) - parts[INPUT]
    assert two["matrix products"] == 2 * parts["matrix products"]
    assert two["Adam"] == parts["Adam"]
    slow = seconds(precision="float32")
    assert slow["matrix products"] > parts["matrix products"]
    r_drop = seconds(BIG.replace(r_drop=5.0))
    assert r_drop["matrix products"] == 2 * parts["matrix products"]
    assert seconds(BASE)[LAUNCH] == parts[LAUNCH]


def test_slow_input_determines_the_update():
    config = kt.TransformerConfig.preset("tiny", num_layers=1, d_model=2)
    device = cpu_device({"float32": 1e18}, bandwidth=1e18)
    parts = step_seconds(
        config, MicroBatchShape(1e6, 30, 30, 1), "float32", 1, device, 1
    )
    assert total_seconds(parts) == parts[INPUT] == pytest.approx(10.0)


def test_the_papers_trainings():
    base, big = (training_cost(each, *P100S) for each in (BASE, BIG))
    # Section 5.2: 12 hours and 3.5 days; 0.4 and 1.0 s an update.
    assert 12 / 1.5 < base.hours() < 12 * 1.5
    assert 84 / 1.5 < big.hours() < 84 * 1.5
    # 6 FLOPs a weight and token; attention's scores besides.
    assert base.flops == pytest.approx(6 * 63e6 * 25_000 * 100_000, rel=0.1)
    assert base.target_tokens == pytest.approx(25_000, rel=0.05)
    assert base.kilowatt_hours == pytest.approx(base.hours() * 8 * 0.3)


def test_packed_rows_have_the_ratio_of_the_lengths():
    row, other = packed_row(20, 30, 128), packed_row(90, 30, 128)
    assert (row.source_length, row.target_length) == (85, 128)
    assert (other.source_length, other.target_length) == (128, 43)


def test_gpus():
    assert parse_gpus("8xH100") == (8, "H100")
    assert parse_gpus("h200") == (1, "H200")
    assert parse_gpus("1xcpu") == (1, "cpu")
    for text in ("8xB9000", "0xH100", "8 H100", ""):
        with pytest.raises(InputError, match=f"--gpus={text}"):
            parse_gpus(text)


def test_weights_and_moments_are_their_arrays():
    config = kt.TransformerConfig.preset("tiny", vocabulary_size=99)
    model = kt.Transformer(config)
    weights = sum(np.asarray(each).nbytes for each in model.trainable_variables)
    one, two = (
        memory_by_component(config, ROW, "float32", n, cpu_device({}))
        for n in (1, 2)
    )
    assert one["weights"] == one["gradients"] == weights
    assert one["Adam's two moments"] == 2 * weights
    assert one["weights in bfloat16"] == one["accumulated gradients"] == 0
    assert two["accumulated gradients"] == weights


def test_measured_memory_peaks():
    # Batch of benchmarks/train_step.py, precision, and the peak GiB of our
    # step on it, from docs/measured.
    for preset, shape, precision, peak in (
        ("base", MicroBatchShape(16, 115, 111, 1760), "float32", 3.28),
        ("base", MicroBatchShape(196, 20, 19, 1760), "float32", 3.95),
        ("base", MicroBatchShape(273, 15, 15, 2401), "float32", 4.28),
        ("base", MicroBatchShape(128, 32, 32, 4096), "float32", 5.2),
        ("base", MicroBatchShape(68, 15, 15, 580), "float32", 2.51),
        ("base", MicroBatchShape(68, 15, 15, 580), "mixed_bfloat16", 2.37),
        ("tiny", MicroBatchShape(16, 65, 63, 995), "float32", 1.05),
        ("base", MicroBatchShape(8, 82, 78, 614), "float32", 2.52),
        ("big", MicroBatchShape(8, 82, 78, 614), "float32", 5.20),
    ):
        config = kt.TransformerConfig.preset(preset)
        parts = memory_by_component(config, shape, precision, 1, cpu_device({}))
        total = sum(parts.values())
        assert total / GIB == pytest.approx(peak, rel=0.1)


def test_activations_of_one_layer_by_hand():
    sizes = {"num_layers": 1, "d_model": 4, "d_ff": 5, "num_heads": 2}
    config = kt.TransformerConfig(
        vocabulary_size=11, d_k=3, d_v=6, dropout=0.0, **sizes
    )
    # In float32 numbers: a norm's output and normal form, 8; query, key,
    # value and the heads' outputs, 2 (3 + 3 + 6 + 6); weights, 2 a key; the
    # inner layer, 5. Cross-attention's keys and values are the source's.
    s, t = 7, 9
    encoder = s * (8 + 36 + 2 * s + 8 + 5 + 8)
    decoder = t * (8 + 36 + 2 * t + 8 + 18 + 2 * s + 8 + 5 + 8) + s * 18
    sizes = activation_bytes(config, MicroBatchShape(1, s, t, t), "float32")
    assert sizes["activations"] == 4 * (encoder + decoder)
    assert sizes["logits and softmax"] == 4 * 2 * t * 11


def test_micro_batches_are_as_few_as_fit():
    device = DEVICES["P100"]
    single = largest_rows(BASE, ROW, "float32", 1, device)
    several = largest_rows(BASE, ROW, "float32", 2, device)
    assert several < single
    for largest, count in ((single, 1), (several, 2)):
        fitting, more = (
            sum(
                memory_by_component(
                    BASE, ROW.scaled(rows), "float32", count, device
                ).values()
            )
            for rows in (largest, largest + 1)
        )
        assert fitting <= MEMORY_UTILIZATION * device.memory < more
    for rows, expected in (
        (single, 1),
        (single + 1, 2),
        (3 * several, 3),
        (3 * several + 1, 4),
    ):
        found = needed_micro_batches(BASE, ROW, rows, "float32", device)
        assert found == expected
    small = dataclasses.replace(device, memory=2 * GIB)
    with pytest.raises(InputError, match="Not even one row"):
        needed_micro_batches(BASE, ROW, 1, "float32", small)
    large = BIG.replace(batch_tokens=1_000_000)
    needed = training_cost(large, *P100S).micro_batches
    with pytest.raises(InputError, match=f"use {needed}"):
        training_cost(large, *P100S, needed - 1)
