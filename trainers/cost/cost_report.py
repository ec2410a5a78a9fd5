"""Prints a cost estimate: counts, estimates, and what they assume."""

from export.errors import InputError
from trainers.cost import cost_estimate as estimate
from trainers.cost import flops
from trainers.cost.memory import (
    FILLED,
    RESERVE_BYTES,
    count_parameters,
    parameters_by_part,
)
from trainers.reports.markdown_table import markdown_table

_GIB = 2**30
# What the paper prints (section 5.2, Table 2): FLOPs and hours on 8 P100.
_TABLE_2 = {"base": (3.3e18, 12.0), "big": (2.3e19, 3.5 * 24)}
# Pairs prepared by a core in a second, of sentences of 19 words
# (docs/measured/data.md).
_PAIRS_PER_SECOND = 13_500


def make_report(name, cost, pairs, means, table_2):
    """Returns the whole report as Markdown.

    Args:
        name: of the model.
        cost: TrainingCost.
        pairs: sentence pairs of the train split; None if unknown.
        means: mean lengths of source and target sentences in tokens.
        table_2: TransformerConfig of each model of the paper's Table 2, a
            dict by name.
    """
    machine, device = cost.machine, cost.machine.device
    rates = ", ".join(
        f"{rate / 1e12:,.4g} TFLOP/s {dtype}"
        for dtype, rate in device.flops.items()
        if dtype != "float16"
    )
    parts = [
        f"# {name} on {machine.count} x {device.name}, {machine.precision}",
        f"{device.name}: {rates}; {device.source}.",
        _counts(cost),
        _memory(cost),
        _time(cost),
        "## The training",
        f"{cost.config.train_steps:,} updates, {_scientific(cost.flops)} "
        f"FLOPs: {_totals(cost)}.",
    ]
    if pairs is not None:
        parts.append(_data(cost, pairs, means))
    return "\n\n".join([*parts, _paper(cost, table_2), _assumptions(device)])


def _table(header, rows):
    return markdown_table(header, rows, text_columns=[0])


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
    parameters = ", ".join(
        f"{part} {count:,}"
        for part, count in parameters_by_part(config).items()
    )
    return (
        "## Counted\n\n"
        f"{count_parameters(config):,} parameters: {parameters}.\n\n"
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
    if cost.machine.device.memory is not None:
        fits = (
            f"Of {cost.machine.device.memory / _GIB:,.2f} GiB. The largest "
            "micro-batch that fits has "
            f"{cost.largest_rows * cost.row.target_length:,} target positions."
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
    machine = cost.machine
    dtype = machine.precision.removeprefix("mixed_")
    peak = machine.count * machine.device.flops[dtype]
    reached = cost.flops / cost.config.train_steps / total / peak
    return (
        "## An update, ms (estimated)\n\n"
        f"{_table(['part', 'ms'], rows)}\n\n"
        f"{cost.target_tokens / total:,.0f} target tokens/s; "
        f"{reached:.0%} of the devices' peak {dtype} rate."
    )


def _totals(cost):
    texts = [
        f"{cost.hours:,.3g} hours ({cost.least_hours:,.3g} if launching "
        "operations took no time)"
    ]
    if cost.kilowatt_hours is not None:
        texts.append(f"{cost.kilowatt_hours:,.3g} kWh")
    if cost.price is None:
        texts.append("for a price give --gpu_hour_price")
    else:
        texts.append(f"a price of {cost.price:,.4g}")
    return ", ".join(texts)


def _data(cost, pairs, means):
    epochs = cost.config.train_steps * cost.target_tokens / means[1] / pairs
    # Ids are uint16 where they fit (trainers/prepared/shards.py), and each
    # pair has two lengths of two bytes.
    width = 2 if cost.config.vocabulary_size <= 2**16 else 4
    size = pairs * (width * sum(means) + 4)
    core_hours = pairs / _PAIRS_PER_SECOND / 3600
    return (
        f"{pairs:,.0f} pairs of {means[0]:.4g} and {means[1]:.4g} tokens: "
        f"{epochs:.3g} epochs; {size / 1e9:,.3g} GB prepared, in about "
        f"{core_hours:.2g} core hours."
    )


def _paper(cost, table_2):
    rows = []
    for name, config in table_2.items():
        printed, hours = _TABLE_2[name]
        here = ["-"] * 4
        try:
            other = estimate.training_cost(config, cost.machine, cost.row)
            here = [_scientific(other.flops), f"{other.hours:,.3g}"] + [
                "-" if value is None else f"{value:,.4g}"
                for value in (other.kilowatt_hours, other.price)
            ]
        except InputError:
            pass
        paper = [_scientific(printed), f"{hours:g}"]
        rows.append([name, here[0], *paper, *here[1:]])
    header = [
        "model",
        "FLOPs, counted",
        "the paper's FLOPs",
        "hours on 8 P100",
        "hours here",
        "kWh here",
        "price here",
    ]
    return (
        f"## The paper's Table 2\n\n{_table(header, rows)}\n\n"
        "The paper's FLOPs are no count: they are hours x 8 GPUs x 9.5 "
        "TFLOP/s (its second footnote)."
    )


def _assumptions(device):
    shares = ", ".join(
        f"{share:.0%} in {dtype}"
        for dtype, share in device.utilization.items()
        if dtype in device.flops and dtype != "float16"
    )
    lines = [
        f"Products reach these shares of the device's peak rate: {shares}.",
        "Activations kept for the backward pass go through memory "
        f"{estimate.ACTIVATION_MOVES} times, at "
        f"{device.bandwidth / 1e9:,.0f} GB/s.",
        "Launching a layer's operations takes "
        f"{1000 * device.layer_seconds:.2g} ms a pass.",
        f"The gradients' ring reaches {estimate.LINK_UTILIZATION:.0%} of a "
        "link, and starts after the backward pass.",
        f"{RESERVE_BYTES / _GIB:g} GiB is the driver's and the framework's, "
        f"and {1 - FILLED:.0%} of the memory stays unused.",
        f"{estimate.PADDING:.0%} of packed rows is padding.",
        "Energy is that of the devices only, at full load all the time.",
        "Dev measurements, checkpoints and compilation are not counted.",
    ]
    return "## Assumed\n\n" + "\n".join(f"- {line}" for line in lines)


def compare_updates(*groups):
    """Returns tables of measured and predicted updates.

    Args:
        *groups: lists of TimedUpdate, a table each; fitted ones have a *.
    """
    header = ["update", "seconds", "predicted", "ratio", "source"]
    tables = []
    for group in groups:
        rows = [
            [
                each.name + " *" * each.fitted,
                f"{each.seconds:.3f}",
                f"{each.predicted:.3f}",
                f"{each.ratio:.2f}",
                each.source,
            ]
            for each in group
        ]
        tables.append(markdown_table(header, rows, text_columns=[0, 4]))
    return "\n\n".join(tables)


def _scientific(value):
    return f"{value:.2e}".replace("e+", "e")
