"""Writes the report of complexity.py: tables and figures."""

import math
import pathlib
import statistics

from benchmarks.harness.report import markdown_table, quartiles, ratio
from benchmarks.layer_types.figure import log_log_svg
from benchmarks.layer_types.layers import FULL, flops
from export.common.storage import atomic_write

PASSES = {False: "forward", True: "forward + backward"}
_SECONDS = {0: "s", -3: "ms", -6: "µs"}
_BYTES = {9: "GB", 6: "MB", 3: "kB"}
# Width of the base model; used in figures if it was measured.
_BASE_WIDTH = 512
# Smaller amounts are lost in the process's other allocations.
_LEAST_BYTES = 2**20


def fitted_exponent(points):
    """Returns e of y = c x^e for a list of (x, y), or None for one x.

    Fits the logarithms by least squares.
    """
    if len({x for x, _ in points}) < 2:
        return None
    logarithms = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logarithms)).slope


class Results:
    """Measurements of the chosen layer types, by name and LayerSize.

    `chosen` is a dict of name to LayerType. `seconds` (one per round) and
    `memory` (bytes) of a call are dicts by (name, LayerSize). Exponents of n
    are fitted to lengths of at least `fit_from`, or twice that for full
    self-attention, where n²·d must outweigh n·d².
    """

    def __init__(self, chosen, sizes, seconds, memory, fit_from):
        self.chosen, self.sizes, self.rounds = chosen, sizes, seconds
        self.fit_from = fit_from
        widths = sorted({size.width for size in sizes})
        self.width = _BASE_WIDTH if _BASE_WIDTH in widths else widths[-1]
        self.seconds = {
            call: quartiles(rounds).median for call, rounds in seconds.items()
        }
        self.memory = {
            call: n for call, n in memory.items() if n > _LEAST_BYTES
        }
        self.flops = {
            (name, size): flops(name, size.length, size.width)
            for name, size in seconds
        }
        # The greatest length at which all layers are measured at every width.
        missing = {
            size.length
            for size in sizes
            if size.both and any((name, size) not in seconds for name in chosen)
        }
        self.length = max(
            {size.length for size in sizes if size.both} - missing, default=0
        )

    def over_length(self, values, both, name, least=0):
        """Returns a list of (n, value) at the figures' width."""
        return [
            (size.length, values[name, size])
            for size in self.sizes
            if (name, size) in values
            and (size.both, size.width) == (both, self.width)
            and size.length >= least
        ]

    def over_width(self, values, name):
        """Returns a list of (d, value), forward + backward at full length."""
        return [
            (size.width, values[name, size])
            for size in self.sizes
            if (name, size) in values
            and (size.both, size.length) == (True, self.length)
        ]


def write(results, counts, line, output_dir):
    """Writes complexity.md and its figures; returns the page's path.

    `counts` is a dict of n to a list of Counts, `line` the provenance.
    """
    output_dir = pathlib.Path(output_dir)
    figures = _figures(results)
    texts = {f"complexity/{name}": text for name, text in figures.items()}
    texts["complexity.md"] = _page(results, counts, line, figures)
    for name, text in texts.items():
        with atomic_write(output_dir / name) as path:
            path.write_text(text, encoding="utf-8")
    return output_dir / "complexity.md"


def _figures(results):
    """Returns a dict of file name to SVG."""
    time, memory = results.seconds, results.memory
    lines = {
        "time-forward.svg": lambda name: results.over_length(time, False, name),
        "time.svg": lambda name: results.over_length(time, True, name),
        "memory.svg": lambda name: results.over_length(memory, True, name),
        "width.svg": lambda name: results.over_width(time, name),
    }
    figures = {}
    for file, line_of in lines.items():
        series = {
            layer.title: line_of(name) for name, layer in results.chosen.items()
        }
        what, units = "Time", _SECONDS
        if file == "memory.svg":
            what, units = "Memory", _BYTES
        x, at = "n, positions", f"d = {results.width:,}"
        if file == "width.svg":
            x, at = "d, width", f"n = {results.length:,}"
        passes = PASSES[file != "time-forward.svg"]
        if any(series.values()):
            figures[file] = log_log_svg(
                f"{what} of a layer, {passes}, {at}",
                (x, what.lower()),
                series,
                lambda power, units=units: _format_power(power, units),
            )
    return figures


def _format_power(power, units):
    """Formats a power of 10 in the largest unit that does not exceed it."""
    base = max((each for each in units if each <= power), default=min(units))
    return f"{10 ** (power - base):g} {units[base]}"


def _page(results, counts, line, figures):
    pictures = "\n\n".join(
        f"![{name.removesuffix('.svg')}](complexity/{name})" for name in figures
    )
    tables = "\n\n".join(
        f"### {title}, {PASSES[both]}\n\n{_table(results, both, cell)}"
        for title, cell in (("Time", _time), ("Memory", _memory))
        for both in PASSES
        if any(size.both == both for size in results.sizes)
    )
    return f"""# Self-attention beside other layers: Table 1, measured

Section 4 of the paper compares layer types by what a layer costs, by how many
operations must follow one another, and by how long the path between two
positions is. Here the same layers are run, all of one width: our
`MultiHeadAttention` without and with `attention_window`, and Keras' `GRU`,
`LSTM`, `Conv1D` and `SeparableConv1D`. Attention has heads of 64, as base and
big have; one sequence, float32, no dropout, plain TensorFlow graphs on a CPU.
`benchmarks/complexity.py` wrote this page.

## What a layer costs

The exponent e, where time or memory grows as n^e (at
d = {results.width:,}) or as d^e (at n = {results.length:,}), fitted to
the medians. "Products" is the same fit to a count of FLOPs; attention's
projections stand in it, n·d² like a recurrent layer, which Table 1 leaves out.
Memory is what a call takes without weights and input; the gradients of weights
are in it, which n does not change.

{_exponents(results)}

{pictures}

## What must wait, and how far signals go

The products that must follow one another are the longest chain of them in the
layer's graph. For the path, a signal is sent from each output down a stack of
layers with random weights, as its gradient in float64: how many layers does it
take until every output depends on every input? With → outputs look at their own
and earlier inputs only. A recurrent layer connects all of those by itself, but
one after the other. The paper's log_k(n) is that of dilated convolutions.

{_counts_table(counts)}

## All sizes

Times are milliseconds of a call, the median of the rounds; × is the share of
full self-attention's time in the same round. Memory is in MiB. Sizes at which
attention's weights would not fit the memory have no entry.

{tables}

{line}
"""


def _exponents(results):
    header = [
        *("layer", "Table 1", "n: products", "n: forward"),
        *("n: forward + backward", "n: memory, forward + backward"),
        *("d: products", "d: forward + backward"),
    ]
    columns = (
        (results.flops, True),
        (results.seconds, False),
        (results.seconds, True),
        (results.memory, True),
    )
    rows = []
    for name, layer in results.chosen.items():
        least = results.fit_from * (2 if name == FULL else 1)
        lines = [results.over_length(*each, name, least) for each in columns]
        for values in (results.flops, results.seconds):
            lines.append(results.over_width(values, name))
        rows.append([layer.title, layer.complexity, *map(_exponent, lines)])
    return markdown_table(header, "ll" + "r" * 6, rows)


def _exponent(points):
    exponent = fitted_exponent(points)
    if exponent is None:
        return "-"
    return f"{exponent:.2f} ({min(points)[0]:,} to {max(points)[0]:,})"


def _counts_table(counts):
    header = ["layer", "layers by formula"]
    for length in counts:
        header += [f"products, n = {length:,}", f"layers, n = {length:,}"]
    rows = []
    for same in zip(*counts.values()):
        arrow = " →" if same[0].causal else ""
        rows.append([same[0].title + arrow, same[0].formula])
        for each in same:
            layers = "-" if each.layers is None else str(each.layers)
            rows[-1] += [str(each.operations), f"{layers} of {each.expected}"]
    return markdown_table(header, "ll" + "rr" * len(counts), rows)


def _table(results, both, cell):
    header = ["d", "n", *(layer.title for layer in results.chosen.values())]
    rows = [
        [
            f"{size.width:,}",
            f"{size.length:,}",
            *(cell(results, name, size) for name in results.chosen),
        ]
        for size in results.sizes
        if size.both == both
    ]
    return markdown_table(header, "r" * len(header), rows)


def _time(results, name, size):
    if (name, size) not in results.rounds:
        return "-"
    share, full = "", results.rounds.get((FULL, size))
    if full and name != FULL:
        share = f" ×{ratio(results.rounds[name, size], full).median:.2f}"
    return f"{_short(1000 * results.seconds[name, size])}{share}"


def _memory(results, name, size):
    taken = results.memory.get((name, size))
    return _short(taken / 2**20) if taken else "-"


def _short(number):
    """Formats a number with at least three significant digits."""
    digits = max(0, 2 - math.floor(math.log10(number)))
    return f"{number:,.{digits}f}"
