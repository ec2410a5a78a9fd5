"""The page of a plan: counts, estimates, and what they assume."""

from export.errors import InputError
from trainers.cost import flops as products
from trainers.cost import update
from trainers.cost.cost_estimate import PADDING, training_cost
from trainers.cost.memory import (
    FILLED,
    RESERVE_BYTES,
    count_parameters,
    parameters_by_part,
)

_GIB = 2**30
# What the paper prints (section 5.2, Table 2): FLOPs and hours on 8 P100.
_TABLE_2 = {"base": (3.3e18, 12.0), "big": (2.3e19, 3.5 * 24)}


def page(name, cost, data, table_2):
    """Returns the whole plan as Markdown.

    Args:
        name: what the model is called.
        cost: TrainingCost.
        data: Data.
        table_2: dict of a model of the paper's Table 2 to its configuration.

    Returns:
        str.
    """
    parts = [
        _head(name, cost),
        _model(cost),
        _memory(cost),
        _time(cost),
        _whole(cost, data),
        _paper(cost, table_2),
        _assumptions(cost.machine),
    ]
    return "\n\n".join(parts)


def table(header, rows, left=(0,)):
    """Returns an aligned Markdown table.

    Args:
        header: list of str.
        rows: lists of str, as many as in the header.
        left: numbers of the columns of text; numbers stand on the right.
    """
    widths = [
        max(map(len, column)) for column in zip(header, *rows, strict=True)
    ]

    def line(cells):
        padded = (
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths))
        )
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if number in left else "-" * (width - 1) + ":"
        for number, width in enumerate(widths)
    ]
    return "\n".join(map(line, [header, rule, *rows]))


def _head(name, cost):
    machine, device = cost.machine, cost.machine.device
    rates = ", ".join(
        f"{rate / 1e12:,.4g} TFLOP/s {dtype}"
        for dtype, rate in device.flops.items()
        if dtype != "float16"
    )
    return (
        f"# {name} on {machine.count} x {device.name}, {machine.precision}\n\n"
        f"{device.name}: {rates}; {device.source}."
    )


def _model(cost):
    config, row = cost.config, cost.row
    of_row = products.flops_by_part(products.step_products(config, *row))
    # The backward pass is twice the forward pass.
    forward = {
        part: value / products.PRODUCTS_PER_STEP / row.target_length
        for part, value in of_row.items()
    }
    total = sum(forward.values())
    rows = [
        [part, _mega(value), _mega(2 * value), f"{value / total:.1%}"]
        for part, value in [*forward.items(), ("all", total)]
    ]
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
        + table(["part", "forward", "backward", "share"], rows)
    )


def _memory(cost):
    parts = cost.memory
    rows = [[part, _gib(size)] for part, size in parts.items() if size]
    rows.append(["all", _gib(sum(parts.values()))])
    capacity = cost.machine.device.memory
    fits = "How much memory there is was not given (--memory)."
    if capacity is not None:
        tokens = cost.largest_rows * cost.row.target_length
        fits = (
            f"Of {_gib(capacity)} GiB. The largest micro-batch that fits has "
            f"{tokens:,} target positions."
        )
    return (
        "## Memory of a device, GiB (activations: estimated)\n\n"
        f"{table(['part', 'GiB'], rows)}\n\n{fits}\n"
        f"An update of {cost.config.batch_tokens:,} tokens: {cost.rows} rows "
        f"in all, {cost.shape.rows * cost.row.target_length:,} target "
        f"positions a device at once, --accumulate={cost.micro_batches}."
    )


def _time(cost):
    time = cost.time
    rows = [
        ["matrix products", _milli(time.products)],
        ["moving activations", _milli(time.memory)],
        ["starting operations", _milli(time.starting)],
        ["Adam", _milli(time.adam)],
        ["adding gradients in a ring", _milli(time.all_reduce)],
        ["all", _milli(time.computing)],
        ["input, meanwhile", _milli(time.input)],
    ]
    machine = cost.machine
    best = machine.count * machine.device.flops[_main_dtype(machine)]
    reached = cost.flops / cost.config.train_steps / time.total / best
    return (
        "## An update, ms (estimated)\n\n"
        f"{table(['part', 'ms'], rows)}\n\n"
        f"{cost.target_tokens / time.total:,.0f} target tokens/s; "
        f"{reached:.0%} of the devices' best {_main_dtype(machine)} rate."
    )


def _whole(cost, data):
    lines = [
        "## The training",
        f"{cost.config.train_steps:,} updates, {_sci(cost.flops)} FLOPs: "
        f"{_needs(cost)}.",
    ]
    if data.pairs is not None:
        size = data.bytes_on_disk(cost.config.vocabulary_size)
        lines.append(
            f"{data.pairs:,.0f} pairs of {data.source_mean:.4g} and "
            f"{data.target_mean:.4g} pieces: {data.epochs(cost):.3g} epochs; "
            f"{size / 1e9:,.3g} GB prepared, in about "
            f"{data.core_hours:.2g} core hours."
        )
    return "\n\n".join(lines)


def _needs(cost):
    said = [
        f"{cost.hours:,.3g} hours ({cost.least_hours:,.3g} if starting "
        "operations took no time)"
    ]
    if cost.kilowatt_hours is not None:
        said.append(f"{cost.kilowatt_hours:,.3g} kWh")
    if cost.price is None:
        said.append("for a price give --gpu_hour_price")
    else:
        said.append(f"a price of {cost.price:,.4g}")
    return ", ".join(said)


def _paper(cost, table_2):
    rows = []
    for name, config in table_2.items():
        printed, hours = _TABLE_2[name]
        try:
            here = training_cost(config, cost.machine, cost.row)
        except InputError:
            rows.append([name, "-", _sci(printed), f"{hours:g}", *3 * ["-"]])
            continue
        energy, price = here.kilowatt_hours, here.price
        rows.append(
            [
                name,
                _sci(here.flops),
                _sci(printed),
                f"{hours:g}",
                f"{here.hours:,.3g}",
                "-" if energy is None else f"{energy:,.3g}",
                "-" if price is None else f"{price:,.4g}",
            ]
        )
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
        f"## The paper's Table 2\n\n{table(header, rows)}\n\n"
        "The paper's FLOPs are no count: they are hours x 8 GPUs x 9.5 "
        "TFLOP/s (its second footnote)."
    )


def _assumptions(machine):
    device = machine.device
    shares = ", ".join(
        f"{share:.0%} in {dtype}"
        for dtype, share in device.share.items()
        if dtype in device.flops and dtype != "float16"
    )
    lines = [
        f"Products reach these shares of the device's best rate: {shares}.",
        f"What is kept for the backward pass goes through memory "
        f"{update.MOVES_OF_KEPT} times, at {device.bandwidth / 1e9:,.0f} GB/s.",
        f"Starting a layer's operations takes "
        f"{1000 * device.layer_seconds:.2g} ms a pass.",
        f"The gradients' ring runs at {update.LINK_SHARE:.0%} of a link, and "
        "only after the backward pass.",
        f"{RESERVE_BYTES / _GIB:g} GiB is the driver's and the framework's, "
        f"and {1 - FILLED:.0%} of the memory stays unused.",
        f"{PADDING:.0%} of packed rows is padding.",
        "Energy is that of the devices alone, at full load all the time.",
        "Measures of dev, checkpoints and compiling are not counted.",
    ]
    return "## Assumed\n\n" + "\n".join(f"- {line}" for line in lines)


def _main_dtype(machine):
    return machine.precision.removeprefix("mixed_")


def figures_page(gpu_figures, cpu_figures):
    """Returns published and measured updates beside what is predicted.

    Args:
        gpu_figures: list of Measured.
        cpu_figures: list of Measured.
    """
    header = ["update", "seconds", "predicted", "ratio", "source"]
    return "\n\n".join(
        table(
            header,
            [
                [
                    each.what + " *" * each.chosen_by,
                    f"{each.seconds:.3f}",
                    f"{each.predicted:.3f}",
                    f"{each.ratio:.2f}",
                    each.source,
                ]
                for each in figures
            ],
            left=(0, 4),
        )
        for figures in (gpu_figures, cpu_figures)
    )


def _mega(value):
    return f"{value / 1e6:,.1f}"


def _gib(size):
    return f"{size / _GIB:,.2f}"


def _milli(seconds):
    return f"{1000 * seconds:,.1f}"


def _sci(value):
    return f"{value:.2e}".replace("e+", "e")
