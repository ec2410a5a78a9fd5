"""Formats a cost estimate as Markdown."""

from tabulate import tabulate

from trainers.cost import cost_estimate as estimate
from trainers.cost import flops

_GIB = 2**30
# Sentence pairs of 19 words that a core prepares in a second
# (docs/measured/data.md).
_PAIRS_PER_SECOND = 13_500


def make_report(
    name: str,
    cost: estimate.TrainingCost,
    hour_price: float | None,
    pairs: float | None,
    mean_lengths: tuple[float, float],
) -> str:
    """Returns the report of a cost as Markdown.

    `pairs` is the number of sentence pairs of the train split, or None, and
    `mean_lengths` are the mean numbers of source and target tokens.
    """
    device = cost.device
    rates = ", ".join(
        f"{rate / 1e12:,.4g} TFLOP/s {dtype}"
        for dtype, rate in device.flops.items()
    )
    sections = [
        f"# {name} on {cost.num_devices} x {device.name}, {cost.precision}",
        f"{device.name}: {rates}; {device.source}.",
        _format_counts(cost),
        _format_memory(cost),
        _format_seconds(cost),
        _format_totals(cost, hour_price),
    ]
    if pairs is not None:
        sections.append(_format_data(cost, pairs, *mean_lengths))
    sections.append("What these estimates assume: docs/scaling.md.")
    return "\n\n".join(sections)


def _format_table(header, rows):
    """Returns a Markdown table, right-aligned but for the first column."""
    alignment = ["left"] + ["right"] * (len(header) - 1)
    return tabulate(
        rows, header, "pipe", disable_numparse=True, colalign=alignment
    )


def _format_counts(cost):
    row = cost.row
    step = flops.flops_by_component(flops.step_products(cost.config, *row))
    total = sum(step.values())
    rows = []
    for name, count in (step | {"all": total}).items():
        forward = count / flops.PRODUCTS_PER_STEP / row.target_length / 1e6
        backward, share = 2 * forward, count / total
        rows.append(
            [name, f"{forward:,.1f}", f"{backward:,.1f}", f"{share:.1%}"]
        )
    parameters = flops.parameters_by_component(cost.config)
    counts = ", ".join(f"{name} {n:,}" for name, n in parameters.items())
    return (
        "## Counted\n\n"
        f"{sum(parameters.values()):,} parameters: {counts}.\n\n"
        "MFLOPs of matrix products for a target position and "
        f"{row.source_length / row.target_length:.2f} source positions, in "
        f"rows of {row.source_length} and {row.target_length}:\n\n"
        + _format_table(["component", "forward", "backward", "share"], rows)
    )


def _format_memory(cost):
    memory = cost.memory | {"all": sum(cost.memory.values())}
    rows = [
        [name, f"{size / _GIB:,.2f}"] for name, size in memory.items() if size
    ]
    limit = "The device's memory is unknown; give --memory."
    device = cost.device
    if device.memory is not None:
        max_rows = estimate.largest_rows(
            cost.config, cost.row, cost.precision, cost.micro_batches, device
        )
        limit = (
            f"Of {device.memory / _GIB:,.2f} GiB. The largest micro-batch that "
            f"fits has {max_rows * cost.row.target_length:,} target positions."
        )
    return (
        "## Memory of a device, GiB (activations: estimated)\n\n"
        f"{_format_table(['component', 'GiB'], rows)}\n\n{limit}\n"
        f"An update of {cost.config.batch_tokens:,} tokens: {cost.rows} rows "
        f"in all, {cost.shape.rows * cost.row.target_length:,} target "
        f"positions a device at once, --accumulate={cost.micro_batches}."
    )


def _format_seconds(cost):
    total = estimate.total_seconds(cost.seconds)
    rows = [
        [name, f"{1000 * seconds:,.1f}"]
        for name, seconds in (cost.seconds | {"all": total}).items()
    ]
    dtype = cost.precision.removeprefix("mixed_")
    peak = cost.num_devices * cost.device.flops[dtype]
    utilization = cost.flops / cost.config.train_steps / total / peak
    return (
        "## An update, ms (estimated)\n\n"
        f"{_format_table(['component', 'ms'], rows)}\n\n"
        f"{cost.target_tokens / total:,.0f} target tokens/s; "
        f"{utilization:.0%} of the devices' peak {dtype} rate."
    )


def _format_totals(cost, hour_price):
    hours, compiled_hours = cost.hours(), cost.hours([estimate.LAUNCH])
    flops_text = f"{cost.flops:.2e}".replace("e+", "e")
    text = (
        f"## The training\n\n{cost.config.train_steps:,} updates, "
        f"{flops_text} FLOPs: {hours:,.3g} hours ({compiled_hours:,.3g} if "
        "launching operations took no time)"
    )
    if cost.kilowatt_hours is not None:
        text += f", {cost.kilowatt_hours:,.3g} kWh"
    if hour_price is None:
        return f"{text}, for a price give --gpu_hour_price."
    return f"{text}, a price of {hours * cost.num_devices * hour_price:,.4g}."


def _format_data(cost, pairs, source_mean, target_mean):
    epochs = cost.config.train_steps * cost.target_tokens / target_mean / pairs
    # Shards store ids as uint16 where they fit, and two uint16 lengths a pair.
    width = 2 if cost.config.vocabulary_size <= 2**16 else 4
    size = pairs * (width * (source_mean + target_mean) + 4)
    core_hours = pairs / _PAIRS_PER_SECOND / 3600
    return (
        f"{pairs:,.0f} pairs of {source_mean:.4g} and {target_mean:.4g} "
        f"tokens: {epochs:.3g} epochs; {size / 1e9:,.3g} GB prepared, in about "
        f"{core_hours:.2g} core hours."
    )
