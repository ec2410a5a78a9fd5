"""The table of a run of the decoding benchmark."""

import dataclasses
import textwrap

import numpy as np

from benchmarks.harness.matrix_products import decoder_layers, step_bytes
from benchmarks.harness.report import markdown_table, quartiles, ratio

_PEER = "ctranslate2"
_HEADER = (
    "beam",
    "batch",
    "system",
    "target tokens/s (quartiles)",
    "own tokens/s",
    "sentences/s",
    "{ours} / it (quartiles)",
    "it / {peer} (quartiles)",
    "floor / it",
    "CPU seconds",
    "p50 ms",
    "p99 ms",
    "same text",
    "score differs by",
    "peak GiB",
)


@dataclasses.dataclass(frozen=True)
class DecodeResult:
    """What was measured of one system at one beam and batch size.

    Attributes:
        name: of the system.
        note: what it runs on.
        beam: K.
        size: sentences in a batch.
        seconds: for all sentences, one a round.
        cpu_seconds: the same in processor seconds of all cores.
        latencies: seconds of every batch of every round; none of a system
            that takes all batches in one call.
        sentences: how many there are.
        tokens: of the first system's translations, end ids counted.
        own_tokens: of its own translations.
        same: sentences whose text is the first system's.
        score_error: largest difference to the first system's score where
            the text is the same, or None.
        peak_bytes: of memory, over all batch sizes.
        translates: False for what only multiplies matrices.
    """

    name: str
    note: str
    beam: int
    size: int
    seconds: list[float]
    cpu_seconds: list[float]
    latencies: list[float]
    sentences: int
    tokens: int
    own_tokens: int
    same: int
    score_error: float | None
    peak_bytes: int
    translates: bool = True

    @property
    def token_rates(self):
        """The first system's target tokens/s of each round."""
        return [self.tokens / seconds for seconds in self.seconds]


def page(results, job, watch, line):
    """Returns the table with what one must know to read it.

    Args:
        results: list of DecodeResult.
        job: DecodeJob.
        watch: NoiseMonitor of the run.
        line: how and where it was run.
    """
    notes = dict.fromkeys(f"- {r.name}: {r.note}." for r in results)
    parts = [
        table(results),
        line,
        "\n".join(notes),
        textwrap.fill(_explanation(results, job, watch), 79),
    ]
    return "\n\n".join(parts)


def _explanation(results, job, watch):
    config = job.config
    lengths = sorted(job.source_lengths)
    mean = results[0].tokens / results[0].sentences
    megabytes = step_bytes(config, job.precision) / 1e6
    return (
        f"{config['num_layers']} layers in the encoder and "
        f"{decoder_layers(config)} in the decoder, d_model "
        f"{config['d_model']}, "
        f"{config['vocabulary_size']} pieces; length penalty length ** "
        f"{config['alpha']}, {job.precision} on {job.device}. "
        f"{len(lengths)} sentences of {lengths[0]} to {lengths[-1]} pieces, "
        f"median {lengths[len(lengths) // 2]}, sorted by length; from text to "
        "text for all. Target tokens are those of the first system's "
        f"translations, {mean:.1f} a sentence, cut into pieces again; own "
        "tokens are each system's. Same text and scores are beside the first "
        "system's. The floor is the faster system of products: the products "
        "with weights of the encoder, and of each decoder step for the K "
        "hypotheses of each sentence that is not finished. A decoder step "
        f"reads {megabytes:.0f} MB of weights. Latencies are of a sentence "
        "alone. Peak memory is over all batch sizes. Other programs took more "
        f"than 8 % of the machine in {watch.disturbed} of {watch.visits} "
        "visits."
    )


def table(results):
    """Returns a Markdown table.

    Args:
        results: list of DecodeResult; the first one is what the others are
            compared with.
    """
    header = [cell.format(ours=results[0].name, peer=_PEER) for cell in _HEADER]
    rows = [
        _row(each, _beside(each, results), results[0].name) for each in results
    ]
    return markdown_table(header, "rrl" + "r" * 12, rows)


def _beside(result, results):
    """Returns by name what was measured at the same beam and batch size."""
    return {
        other.name: other
        for other in results
        if (other.beam, other.size) == (result.beam, result.size)
    }


def _row(result, beside, first):
    seconds = quartiles(result.seconds).median
    floor = min(
        (other for other in beside.values() if not other.translates),
        key=lambda other: quartiles(other.seconds).median,
        default=None,
    )
    return [
        str(result.beam),
        str(result.size),
        result.name,
        f"{quartiles(result.token_rates):,.0f}",
        f"{result.own_tokens / seconds:,.0f}" if result.translates else "-",
        f"{result.sentences / seconds:.2f}",
        _quotient(result, beside.get(first)),
        _quotient(beside.get(_PEER), result),
        _quotient(floor, result),
        f"{quartiles(result.cpu_seconds).median:.3g}",
        *_latencies(result),
        _percent(result.same, result.sentences) if result.translates else "-",
        "-" if result.score_error is None else f"{result.score_error:.1e}",
        f"{result.peak_bytes / 2**30:.2f}",
    ]


def _quotient(one, other):
    """Of their seconds, taken round by round."""
    if one is None or other is None or one is other:
        return "-"
    return f"{ratio(one.seconds, other.seconds):.3f}"


def _latencies(result):
    if result.size > 1 or not result.translates or not result.latencies:
        return ["-", "-"]
    milliseconds = 1000 * np.percentile(result.latencies, [50, 99])
    return [f"{value:.1f}" for value in milliseconds]


def _percent(part, whole):
    return f"{part / whole:.1%}"
