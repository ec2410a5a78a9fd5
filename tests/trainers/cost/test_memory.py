"""Memory by part, beside a model's arrays and measured peaks."""

import dataclasses

import numpy as np
import pytest

import keras_transformer as kt
from trainers.cost.devices import DEVICES
from trainers.cost.memory import (
    FILLED,
    Shape,
    kept_bytes,
    largest_rows,
    memory_by_part,
    needed_micro_batches,
)

BASE = kt.TransformerConfig.preset("base")
ROW = Shape(1, 128, 128, 128)
GIB = 2**30


def test_weights_and_moments_are_their_arrays():
    config = kt.TransformerConfig.preset("tiny", vocabulary_size=99)
    model = kt.Transformer(config)
    weights = sum(np.asarray(each).nbytes for each in model.trainable_variables)
    parts = memory_by_part(config, ROW, "float32", 2)
    assert parts["weights"] == parts["gradients"] == weights
    assert parts["accumulated gradients"] == weights
    assert parts["Adam's two moments"] == 2 * weights
    assert parts["weights in bfloat16"] == 0
    assert memory_by_part(config, ROW, "float32", 1)[
        "accumulated gradients"
    ] == (0)


# Batch of benchmarks/train_step.py, precision, and the peak GiB that
# docs/measured has of our step on it.
@pytest.mark.parametrize(
    "preset, shape, precision, peak",
    [
        ("base", Shape(16, 115, 111, 1760), "float32", 3.28),
        ("base", Shape(196, 20, 19, 1760), "float32", 3.95),
        ("base", Shape(273, 15, 15, 2401), "float32", 4.28),
        ("base", Shape(128, 32, 32, 4096), "float32", 5.2),
        ("base", Shape(68, 15, 15, 580), "float32", 2.51),
        ("base", Shape(68, 15, 15, 580), "mixed_bfloat16", 2.37),
        ("tiny", Shape(16, 65, 63, 995), "float32", 1.05),
        ("base", Shape(8, 82, 78, 614), "float32", 2.52),
        ("big", Shape(8, 82, 78, 614), "float32", 5.20),
    ],
)
def test_measured_peaks(preset, shape, precision, peak):
    config = kt.TransformerConfig.preset(preset)
    total = sum(memory_by_part(config, shape, precision, 1).values())
    assert total / GIB == pytest.approx(peak, rel=0.1)


def test_one_layer_by_hand():
    config = kt.TransformerConfig(
        vocabulary_size=11,
        num_layers=1,
        d_model=4,
        d_ff=5,
        num_heads=2,
        d_k=3,
        d_v=6,
        dropout=0.0,
    )
    # In float32 numbers: a norm's output and normal form, 8; query, key,
    # value and what the heads found, 2 (3 + 3 + 6 + 6); weights, 2 a key;
    # the inner layer, 5. Cross-attention's keys and values are the source's.
    s, t = 7, 9
    encoder = s * (8 + 36 + 2 * s + 8 + 5 + 8)
    decoder = t * (8 + 36 + 2 * t + 8 + 18 + 2 * s + 8 + 5 + 8) + s * 18
    kept = kept_bytes(config, Shape(1, s, t, t), "float32")
    assert kept["activations"] == 4 * (encoder + decoder)
    assert kept["logits and softmax"] == 4 * 2 * t * 11


@pytest.mark.parametrize("gpu", ["P100", "A100"])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_largest_batch_fits_and_one_row_more_does_not(gpu, micro_batches):
    device = DEVICES[gpu]
    rows = largest_rows(BASE, ROW, "float32", device, micro_batches)

    def needed(rows):
        parts = memory_by_part(
            BASE,
            ROW.scaled(rows),
            "float32",
            micro_batches,
            device.logits_arrays,
        )
        return sum(parts.values())

    assert needed(rows) <= FILLED * device.memory < needed(rows + 1)


def test_micro_batches_are_as_few_as_fit():
    device = DEVICES["P100"]
    alone = largest_rows(BASE, ROW, "float32", device, 1)
    fits = largest_rows(BASE, ROW, "float32", device, 2)
    assert fits < alone

    def needed(rows):
        return needed_micro_batches(BASE, ROW, rows, "float32", device)

    assert needed(alone) == 1
    assert needed(alone + 1) == 2
    assert needed(3 * fits) == 3
    assert needed(3 * fits + 1) == 4
    small = dataclasses.replace(device, memory=2 * GIB)
    assert needed_micro_batches(BASE, ROW, 1, "float32", small) is None
