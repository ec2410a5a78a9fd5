"""The page of a run: Table 1 beside what was measured, tables and figures."""

import math
import pathlib

from benchmarks.harness.report import markdown_table
from benchmarks.layer_types.figure import log_log_svg
from benchmarks.layer_types.layers import FULL
from export.files.atomic import written_whole

PASSES = {False: "forward", True: "forward + backward"}
_SECONDS = {0: "s", -3: "ms", -6: "µs"}
_BYTES = {9: "GB", 6: "MB", 3: "kB"}
# The base model's; figures are of it where it was measured.
_BASE_WIDTH = 512


def write(results, counted, left_out, line, output_dir):
    """Writes complexity.md and the figures that it shows.

    Args:
        results: Results.
        counted: dict of n to a list of Counted.
        left_out: dict of (name, LayerSize) to why.
        line: how and where it was run.
        output_dir: complexity.md goes there, figures to complexity/ in it.

    Returns:
        The page's path.
    """
    output_dir = pathlib.Path(output_dir)
    for name, text in _figures(results).items():
        with written_whole(output_dir / "complexity" / name) as path:
            path.write_text(text, encoding="utf-8")
    page = output_dir / "complexity.md"
    with written_whole(page) as path:
        text = _page(results, counted, left_out, line)
        path.write_text(text, encoding="utf-8")
    return page


def _figures(results):
    """Returns the text of each figure by its file's name; few have none."""
    widths = results.widths()
    width = _shown_width(widths)
    made = {
        f"{file}.svg": _figure(
            f"{what} of a layer, {PASSES[both]}, d = {width}",
            ("n, positions", what.lower()),
            results,
            lambda name, value=value, both=both: results.line(
                value, name, both, width=width
            ),
            units,
        )
        for file, what, value, both, units in (
            ("time-forward", "Time", results.seconds, False, _SECONDS),
            ("time", "Time", results.seconds, True, _SECONDS),
            ("memory", "Memory", results.bytes, True, _BYTES),
        )
    }
    if (length := results.shared_length()) and len(widths) > 1:
        made["width.svg"] = _figure(
            f"Time of a layer, {PASSES[True]}, n = {length:,}",
            ("d, width", "time"),
            results,
            lambda name: results.line(
                results.seconds, name, True, length=length
            ),
            _SECONDS,
        )
    return {name: text for name, text in made.items() if text}


def _figure(title, axes, results, line_of, units):
    """Returns an SVG, or None where nothing was measured."""
    series = {
        layer.title: line_of(name) for name, layer in results.chosen.items()
    }
    if not any(series.values()):
        return None
    return log_log_svg(title, axes, series, lambda power: _power(power, units))


def _power(power, units):
    """Returns a power of 10 in the largest unit that is not above it."""
    base = max((each for each in units if each <= power), default=min(units))
    return f"{10 ** (power - base):g} {units[base]}"


def _shown_width(widths):
    return _BASE_WIDTH if _BASE_WIDTH in widths else widths[-1]


def _page(results, counted, left_out, line):
    figures = "\n\n".join(
        f"![{name.removesuffix('.svg')}](complexity/{name})"
        for name in _figures(results)
    )
    length = results.shared_length()
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
d = {_shown_width(results.widths()):,}) or as d^e{_at(length)}, fitted to
the medians. "Products" is the same fit to a count of FLOPs; attention's
projections stand in it, n·d² like a recurrent layer, which Table 1 leaves out.
Memory is what a call takes beside weights and input; the gradients of weights
are in it, which n does not change.

{_exponents(results, length)}

{figures}

## What must wait, and how far signals go

The products that must follow one another are the longest chain of them in the
layer's graph. For the path, a signal is sent from each output down a stack of
layers with random weights, as its gradient in float64: how many layers does it
take until every output depends on every input? With → outputs look at their own
and earlier inputs only. A recurrent layer connects all of those by itself, but
one after the other. The paper's log_k(n) is that of dilated convolutions.

{_counts(counted)}

## All sizes

Times are milliseconds of a call, the median of the rounds; × is the share of
full self-attention's time in the same round. Memory is in MiB.

{tables}

{_left_out(results, left_out)}{line}
"""


def _at(length):
    return "" if length is None else f" (at n = {length:,})"


def _exponents(results, length):
    width = _shown_width(results.widths())
    header = [
        "layer",
        "Table 1",
        "n: products",
        "n: forward",
        "n: forward + backward",
        "n: memory, forward + backward",
        "d: products",
        "d: forward + backward",
    ]
    rows = []
    for name, layer in results.chosen.items():
        of_length = [
            results.exponent_of_length(value, name, both, width)
            for value, both in (
                (lambda *at: results.products(*at), True),
                (results.seconds, False),
                (results.seconds, True),
                (results.bytes, True),
            )
        ]
        of_width = [
            length and results.exponent_of_width(value, name, True, length)
            for value in (results.products, results.seconds)
        ]
        cells = map(_exponent, of_length + of_width)
        rows.append([layer.title, layer.complexity, *cells])
    return markdown_table(header, "ll" + "r" * 6, rows)


def _exponent(found):
    if not found:
        return "-"
    exponent, low, high = found
    return f"{exponent:.2f} ({low:,} to {high:,})"


def _counts(counted):
    header = ["layer", "layers by formula"]
    for length in counted:
        header += [f"products, n = {length:,}", f"layers, n = {length:,}"]
    rows = []
    for same in zip(*counted.values()):
        arrow = " →" if same[0].causal else ""
        rows.append([same[0].title + arrow, same[0].formula])
        for each in same:
            layers = "-" if each.layers is None else str(each.layers)
            rows[-1] += [str(each.operations), f"{layers} of {each.expected}"]
    return markdown_table(header, "ll" + "rr" * len(counted), rows)


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
    seconds = results.seconds(name, size)
    if seconds is None:
        return "-"
    beside = results.beside_full(name, size)
    share = f" ×{beside.median:.2f}" if beside and name != FULL else ""
    return f"{_short(1000 * seconds)}{share}"


def _memory(results, name, size):
    taken = results.bytes(name, size)
    return _short(taken / 2**20) if taken else "-"


def _short(number):
    """Writes a number with three digits that count, at least."""
    digits = max(0, 2 - math.floor(math.log10(number)))
    return f"{number:,.{digits}f}"


def _left_out(results, left_out):
    if not left_out:
        return ""
    lines = [
        f"- {results.chosen[name].title}, d = {size.width:,}, "
        f"n = {size.length:,}, {PASSES[size.both]}: {reason}."
        for (name, size), reason in left_out.items()
    ]
    return "Left out:\n\n" + "\n".join(lines) + "\n\n"
