"""Formats a cost estimate as Markdown, and compares published times."""

from tabulate import tabulate

import keras_transformer as kt
from trainers.cost import cost_estimate as estimate
from trainers.cost import flops
from trainers.cost.cost_estimate import (
    BatchShape,
    total_seconds,
    update_seconds,
)
from trainers.cost.devices import DEVICES

_GIB = 2**30
# Sentence pairs of 19 words that a core prepares in a second
# (docs/measured/data.md).
_PAIRS_PER_SECOND = 13_500


def make_report(name, cost, hour_price, pairs, means):
    """Returns the report of a TrainingCost as Markdown.

    `hour_price` is the price of one device's hour, in any currency, or None;
    `pairs` is the number of sentence pairs of the train split, or None, and
    `means` are the mean lengths of source and target sentences in tokens.
    """
    device = cost.device
    rates = ", ".join(
        f"{rate / 1e12:,.4g} TFLOP/s {dtype}"
        for dtype, rate in device.flops.items()
        if dtype != "float16"
    )
    parts = [
        f"# {name} on {cost.count} x {device.name}, {cost.precision}",
        f"{device.name}: {rates}; {device.source}.",
        _counts(cost),
        _memory(cost),
        _time(cost),
        _totals(cost, hour_price),
    ]
    if pairs is not None:
        parts.append(_data(cost, pairs, means))
    parts.append("What these estimates assume: docs/scaling.md.")
    return "\n\n".join(parts)


def _table(header, rows):
    """Returns a Markdown table, right-aligned but for the first column."""
    alignment = ["left"] + ["right"] * (len(header) - 1)
    return tabulate(
        rows, header, "pipe", disable_numparse=True, colalign=alignment
    )


def _counts(cost):
    config, row = cost.config, cost.row
    by_part = flops.flops_by_part(flops.step_products(config, *row))
    by_part["all"] = sum(by_part.values())
    rows = []
    for part, value in by_part.items():
        forward = value / flops.PRODUCTS_PER_STEP / row.target_length / 1e6
        share = value / by_part["all"]
        rows.append(
            [part, f"{forward:,.1f}", f"{2 * forward:,.1f}", f"{share:.1%}"]
        )
    parameters = flops.parameters_by_part(config)
    listed = ", ".join(f"{part} {n:,}" for part, n in parameters.items())
    return (
        "## Counted\n\n"
        f"{sum(parameters.values()):,} parameters: {listed}.\n\n"
        "MFLOPs of matrix products for a target position and "
        f"{row.source_length / row.target_length:.2f} source positions, in "
        f"rows of {row.source_length} and {row.target_length}:\n\n"
        + _table(["part", "forward", "backward", "share"], rows)
    )


def _memory(cost):
    parts = cost.memory | {"all": sum(cost.memory.values())}
    rows = [
        [part, f"{size / _GIB:,.2f}"] for part, size in parts.items() if size
    ]
    fits = "The device's memory is unknown; give --memory."
    device = cost.device
    if device.memory is not None:
        most = estimate.largest_rows(
            cost.config, cost.row, cost.precision, cost.micro_batches, device
        )
        fits = (
            f"Of {device.memory / _GIB:,.2f} GiB. The largest micro-batch that "
            f"fits has {most * cost.row.target_length:,} target positions."
        )
    return (
        "## Memory of a device, GiB (activations: estimated)\n\n"
        f"{_table(['part', 'GiB'], rows)}\n\n{fits}\n"
        f"An update of {cost.config.batch_tokens:,} tokens: {cost.rows} rows "
        f"in all, {cost.shape.rows * cost.row.target_length:,} target "
        f"positions a device at once, --accumulate={cost.micro_batches}."
    )


def _time(cost):
    total = estimate.total_seconds(cost.seconds)
    rows = [
        [part, f"{1000 * seconds:,.1f}"]
        for part, seconds in (cost.seconds | {"all": total}).items()
    ]
    dtype = cost.precision.removeprefix("mixed_")
    peak = cost.count * cost.device.flops[dtype]
    reached = cost.flops / cost.config.train_steps / total / peak
    return (
        "## An update, ms (estimated)\n\n"
        f"{_table(['part', 'ms'], rows)}\n\n"
        f"{cost.target_tokens / total:,.0f} target tokens/s; "
        f"{reached:.0%} of the devices' peak {dtype} rate."
    )


def _totals(cost, hour_price):
    hours, least = cost.hours(), cost.hours([estimate.LAUNCH])
    flops_text = f"{cost.flops:.2e}".replace("e+", "e")
    text = (
        f"## The training\n\n{cost.config.train_steps:,} updates, "
        f"{flops_text} FLOPs: {hours:,.3g} hours ({least:,.3g} if launching "
        "operations took no time)"
    )
    if cost.kilowatt_hours is not None:
        text += f", {cost.kilowatt_hours:,.3g} kWh"
    if hour_price is None:
        return f"{text}, for a price give --gpu_hour_price."
    return f"{text}, a price of {hours * cost.count * hour_price:,.4g}."


def _data(cost, pairs, means):
    epochs = cost.config.train_steps * cost.target_tokens / means[1] / pairs
    # Shards store ids as uint16 where they fit (trainers/data/shards.py), and
    # two lengths of two bytes for each pair.
    width = 2 if cost.config.vocabulary_size <= 2**16 else 4
    size = pairs * (width * sum(means) + 4)
    core_hours = pairs / _PAIRS_PER_SECOND / 3600
    return (
        f"{pairs:,.0f} pairs of {means[0]:.4g} and {means[1]:.4g} tokens: "
        f"{epochs:.3g} epochs; {size / 1e9:,.3g} GB prepared, in about "
        f"{core_hours:.2g} core hours."
    )


# Approximate mean length of WMT's sentences in tokens; only the products of
# attention scores depend on it.
_LENGTH = 30

_PAPER = "Vaswani et al. 2017, section 5.2"
_NVIDIA = "NVIDIA DeepLearningExamples, PyTorch Transformer, README of 2022"
# By GPU, precision and tokens per GPU: tokens/s by number of GPUs.
_NVIDIA_RATES = {
    ("V100", "float32", 2560): {1: 8742, 4: 30_204, 8: 59_316},
    ("V100", "float16", 5120): {1: 32_942, 4: 109_726, 8: 214_656},
    ("V100-32GB", "float32", 5120): {1: 9827, 8: 68_929, 16: 136_253},
    ("V100-32GB", "float16", 10_240): {1: 39_911, 8: 267_815, 16: 517_227},
    ("A100-40GB", "float32", 10_240): {1: 51_057, 4: 179_245, 8: 347_936},
    ("A100-40GB", "float16", 10_240): {1: 82_059, 4: 286_081, 8: 551_599},
}
# By source: preset, vocabulary, GPUs, their name, precision, target tokens per
# GPU (with equally many source tokens, some may be padding), micro-batches,
# seconds.
_UPDATES = {
    _PAPER: [
        ("base", 37_000, 8, "P100", "float32", 3125, 1, 0.4),
        ("big", 37_000, 8, "P100", "float32", 3125, 1, 1.0),
    ],
    _NVIDIA: [
        ("big", 33_708, count, *batch, 1, count * batch[-1] / rate)
        for batch, rates in _NVIDIA_RATES.items()
        for count, rate in rates.items()
    ],
    # "At least" this many words a second; "3500 or 4000" tokens per GPU.
    "M. Ott in fairseq#940, at least": [
        ("base", 30_000, 4, "V100", "float32", 3500, 1, 4 * 3500 / 73_000),
        ("base", 30_000, 4, "V100", "float16", 3500, 1, 4 * 3500 / 160_000),
    ],
    "fairseq timed in NVIDIA/OpenSeq2Seq#250": [
        ("big", 32_768, 1, "V100", "float16", 3584, 1, 0.148),
    ],
    # 9,700 updates of 402,000 tokens: quoted in fairseq#361 for more GPUs and
    # the same batch.
    "Ott et al. 2018, abstract, under 5 hours; fairseq#361": [
        ("big", 32_768, 8, "V100", "float16", 3584, 14, 5 * 3600 / 9700),
    ],
}


def published_updates():
    """Yields name, published and predicted seconds, and source of updates.

    Names end with * if the assumptions were fitted to the published time, so
    that agreement proves little.
    """
    for source, rows in _UPDATES.items():
        for preset, vocabulary, count, gpu, precision, *batch, seconds in rows:
            tokens, micro_batches = batch
            parts = update_seconds(
                kt.TransformerConfig.preset(preset, vocabulary_size=vocabulary),
                BatchShape(tokens / _LENGTH, _LENGTH, _LENGTH, tokens),
                precision,
                micro_batches,
                DEVICES[gpu],
                count,
            )
            name = f"{count} x {gpu}, {preset}, {precision}, "
            if micro_batches > 1:
                name += f"{micro_batches} x "
            name += f"{tokens:,}"
            if source == _PAPER or (source == _NVIDIA and count == 1):
                name += " *"
            yield name, seconds, total_seconds(parts), source


def compare_published_updates():
    """Returns `published_updates` as a Markdown table."""
    header = ["update", "seconds", "predicted", "ratio", "source"]
    rows = [
        [name, f"{each:.3f}", f"{found:.3f}", f"{found / each:.2f}", source]
        for name, each, found, source in published_updates()
    ]
    return tabulate(rows, header, "pipe", disable_numparse=True)
