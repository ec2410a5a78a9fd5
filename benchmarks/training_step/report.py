"""The table of a run."""

import dataclasses
import math

from benchmarks.harness.report import gpu_peak, markdown_table, quartiles, ratio

# Beyond it two models are not of the same size.
_LARGEST_DIFFERENCE = 0.02
_HEADER = (
    "system",
    "runs on",
    "parameters",
    "loss at step 0",
    "seconds a step",
    "CPU seconds",
    "target tokens/s (quartiles)",
    "{ours} / it (quartiles)",
    "GFLOP/s",
    "of the products' rate",
    "of the GPU's peak",
    "peak GiB",
)


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What was measured of one system.

    Attributes:
        name: of the system.
        note: what it runs on.
        parameters: trained numbers, or None where it is no model.
        first_loss: before any update; of no meaning where it is no model.
        seconds: of an average step, one a round.
        cpu_seconds: the same in processor seconds of all cores, which other
            programs change less.
        flops: of an average step; of what is counted.
        tokens: real target tokens of an average step.
        peak_bytes: of memory.
    """

    name: str
    note: str
    parameters: int | None
    first_loss: float
    seconds: list[float]
    cpu_seconds: list[float]
    flops: float
    tokens: float
    peak_bytes: int

    @property
    def token_rates(self):
        """Target tokens/s of each round."""
        return [self.tokens / seconds for seconds in self.seconds]

    @property
    def flop_rates(self):
        """FLOP/s of each round."""
        return [self.flops / seconds for seconds in self.seconds]


def page(results, job, watch, line):
    """Returns the table with what one must know to read it.

    Args:
        results: list of StepResult.
        job: StepJob.
        watch: NoiseMonitor of the run.
        line: how and where it was run.
    """
    shapes = ", ".join(
        f"{batch.weight} of {batch.source.shape[0]} x "
        f"{batch.source.shape[1]} and {batch.labels.shape[1]}"
        for batch in job.batches
    )
    real = sum(batch.weight * batch.target_tokens for batch in job.batches)
    positions = sum(batch.weight * batch.labels.size for batch in job.batches)
    peak = gpu_peak(job.precision) if job.device == "gpu" else None
    return f"""{table(results, peak)}

{line}

{job.precision} on {job.device}; batches: {shapes} (how many of them count, rows
x padded lengths of the sides); {real / positions:.1%} of target positions are
real tokens, and only those are in tokens/s; `ours-packed` has the same pairs in
rows of 128 at most. Models' GFLOP/s count 6 for each
weight of a matrix and each position it is used at, padded ones too but for the
logits of ours without XLA, which makes none of padding; neither attention's own
products nor embedding look-ups are counted. `products` makes all products of a
step, with plain calls, and nothing else. {_of_peak(peak)}
ln V = {math.log(job.config.vocabulary_size):.3f}. Other
programs took more than 8 % of the machine in {watch.disturbed} of
{watch.visits} visits."""


def _of_peak(peak):
    if peak is None:
        return ""
    return f"The GPU's peak by its datasheet is {peak / 1e12:.1f} TFLOP/s."


def table(results, peak=None):
    """Returns a Markdown table.

    Ratios are those of the first model to each other one, and none where
    their sizes differ too much. Shares are of the system `products`.

    Args:
        results: list of StepResult.
        peak: FLOP/s that the machine can reach; None where it is not known.
    """
    models = [result for result in results if result.parameters]
    ours = models[0] if models else None
    products = next((r for r in results if r.name == "products"), None)
    header = [
        cell.format(ours=ours.name if ours else "ours") for cell in _HEADER
    ]
    rows = [_row(result, ours, products, peak) for result in results]
    return markdown_table(header, "lll" + "r" * 9, rows)


def _row(result, ours, products, peak):
    rate = quartiles(result.flop_rates).median
    return [
        result.name,
        result.note,
        f"{result.parameters:,}" if result.parameters else "-",
        f"{result.first_loss:.3f}" if result.parameters else "-",
        f"{quartiles(result.seconds).median:.4g}",
        f"{quartiles(result.cpu_seconds).median:.4g}",
        f"{quartiles(result.token_rates):,.0f}" if result.parameters else "-",
        _ratio(ours, result),
        f"{rate / 1e9:,.0f}",
        _share(result, products),
        f"{rate / peak:.3f}" if peak else "-",
        f"{result.peak_bytes / 2**30:.2f}",
    ]


def _ratio(ours, result):
    if not result.parameters or result is ours:
        return "-"
    difference = abs(result.parameters - ours.parameters)
    if difference > _LARGEST_DIFFERENCE * ours.parameters:
        return f"none: {difference / ours.parameters:.1%} other size"
    return f"{ratio(ours.token_rates, result.token_rates):.3f}"


def _share(result, products):
    if products is None or result is products:
        return "-"
    share = ratio(result.flop_rates, products.flop_rates)
    return f"{share:.3f}"
