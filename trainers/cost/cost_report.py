"""Formats a cost estimate as Markdown."""

from tabulate import tabulate

from trainers.cost import cost_estimate as estimate
from trainers.cost import flops

_GIB = 2**30
# Sentence pairs of 19 words that a core prepares in a second
# (docs/measured/data.md).
_PAIRS_PER_SECOND = 13_500


def make_report(name, cost, hour_price, pairs, means):
    """Returns the report of a TrainingCost as Markdown.

    `pairs` is the number of sentence pairs of the train split, or None, and
    `means` are their mean lengths in tokens.
    """
    device = cost.device
    rates = ", ".join(
        f"{rate / 1e12:,.4g} TFLOP/s {dtype}"
        for dtype, rate in device.flops.items()
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
