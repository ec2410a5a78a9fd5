"""Table 3 in the paper's layout, as Markdown and as CSV."""

import csv
import dataclasses
import io
import typing

import keras_transformer as kt
from export.progress_bar import clock
from trainers.reports.published_scores import FINDINGS, PAPER
from trainers.reports.results_page import table, without_folders

# Differences no larger than these say nothing: the paper's BLEU has one digit
# and no interval, and our perplexities come from one seed.
_EQUAL_BLEU = 0.1
_EQUAL_PERPLEXITY = 0.005

AGREES = "agrees"
DIFFERS = "differs"
TOO_CLOSE = "too close to tell"


class Finding(typing.NamedTuple):
    """What the paper says of a row, and whether it holds here.

    Attributes:
        row: name.
        claim: a sentence.
        perplexity: (paper's difference from base, ours, verdict).
        bleu: the same.
    """

    row: str
    claim: str
    perplexity: tuple
    bleu: tuple


def find(scores):
    """Returns a Finding for each row of the paper that is there beside base.

    Args:
        scores: dict, row's name to its entry of scores.json.
    """
    if "base" not in scores:
        return []
    return [
        Finding(
            name,
            claim,
            _perplexity(name, scores),
            _bleu(name, scores),
        )
        for name, claim in FINDINGS.items()
        if name in scores
    ]


def _perplexity(name, scores):
    ours = [scores[each]["perplexity"]["per_token"] for each in (name, "base")]
    paper = [PAPER[each].perplexity for each in (name, "base")]
    verdict = _verdict(
        _difference(paper),
        _difference(ours),
        _EQUAL_PERPLEXITY * paper[1],
        _EQUAL_PERPLEXITY * ours[1],
    )
    return _difference(paper), _difference(ours), verdict


def _bleu(name, scores):
    ours = [scores[each]["score"] for each in (name, "base")]
    paper = [PAPER[each].bleu for each in (name, "base")]
    intervals = [scores[each]["confidence_95"] for each in (name, "base")]
    half = max(high - low for low, high in intervals) / 2
    verdict = _verdict(_difference(paper), _difference(ours), _EQUAL_BLEU, half)
    return _difference(paper), _difference(ours), verdict


def _difference(pair):
    # The paper's digits are decimal.
    return round(pair[0] - pair[1], 4)


def _verdict(paper, ours, equal_in_paper, equal_here):
    signs = _sign(paper, equal_in_paper), _sign(ours, equal_here)
    if signs[0] == signs[1]:
        return AGREES
    return DIFFERS if signs[1] else TOO_CLOSE


def _sign(difference, equal):
    return (
        0 if abs(difference) <= equal else (difference > 0) - (difference < 0)
    )


_FIELDS = {
    # Of encoder + decoder, where they have not as many.
    "N": "num_layers",
    "d_model": "d_model",
    "d_ff": "d_ff",
    "h": "num_heads",
    "d_k": "d_k",
    "d_v": "d_v",
    "P_drop": "dropout",
    "ε_ls": "label_smoothing",
    "steps": "train_steps",
}
_COLUMNS = (
    "row",
    *_FIELDS,
    "PPL (dev)",
    "BLEU (dev)",
    "95 % interval",
    "params ×10⁶",
    "training",
    "paper: PPL",
    "paper: BLEU",
    "paper: params ×10⁶",
)
_UNFINISHED = "not yet"


def markdown(rows, scores, scale):
    """Returns the page; values that are base's are left out, as in the paper.

    Args:
        rows: list of Row, base first.
        scores: dict, name of each finished row to its entry of scores.json.
        scale: factor on the widths.
    """
    base = rows[0].config
    of_base = _values(base)
    lines = []
    for row in rows:
        values = [
            _short(each) if row is rows[0] or each != as_in_base else ""
            for each, as_in_base in zip(_values(row.config), of_base)
        ]
        label = row.name + _other_fields(row.config, base)
        lines.append([label, *values, *_measured(row, scores)])
    parts = [
        f"# Table 3 at scale {scale:g}",
        _how(base, scores, scale),
        table(_COLUMNS, lines),
        _findings(scores),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_csv(rows, scores, scale):
    """Returns the same table with every value, a line for each row.

    Args:
        rows: as for `markdown`.
        scores: as for `markdown`.
        scale: as for `markdown`.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["scale", *_COLUMNS, "dataset", "signature"])
    for row in rows:
        record = scores.get(row.name, {})
        writer.writerow(
            [
                scale,
                row.name,
                *_values(row.config),
                *_measured(row, scores),
                without_folders(record.get("dataset", "")),
                record.get("signature", ""),
            ]
        )
    return stream.getvalue()


def _values(config):
    layers, *others = (getattr(config, field) for field in _FIELDS.values())
    if config.decoder_layers != layers:
        layers = f"{layers} + {config.decoder_layers}"
    return [layers, *others]


def _short(value):
    return value if isinstance(value, str) else f"{value:g}"


def _measured(row, scores):
    return [*_ours(scores.get(row.name)), *_papers(PAPER.get(row.name))]


def _ours(record):
    if record is None:
        return [_UNFINISHED, "", "", "", ""]
    low, high = record["confidence_95"]
    training = record["training"]
    return [
        f"{record['perplexity']['per_token']:.2f}",
        f"{record['score']:.2f}",
        f"{low:.2f} to {high:.2f}",
        f"{record['parameters'] / 1e6:.2f}",
        clock(training["seconds"]) if training else "",
    ]


def _papers(paper):
    if paper is None:
        return ["", "", ""]
    return [
        f"{paper.perplexity:.2f}",
        f"{paper.bleu:.1f}",
        "" if paper.parameters is None else str(paper.parameters),
    ]


def _other_fields(config, base):
    shown = {*_FIELDS.values(), "num_decoder_layers"}
    others = [
        f"{field}={value}"
        for field, value in dataclasses.asdict(config).items()
        if field not in shown and value != getattr(base, field)
    ]
    return f" ({', '.join(others)})" if others else ""


def _how(base, scores, scale):
    papers = kt.TransformerConfig.preset("base")
    facts = [
        f"Every row was run at scale {scale:g} (d_model, d_ff, d_k and d_v "
        f"times {scale:g}, heads as in the row) with the same budget: "
        f"{base.train_steps:,} updates of {base.batch_tokens:,} positions a "
        f"side, warm-up {base.warmup_steps:,}, a vocabulary of "
        f"{base.vocabulary_size:,} pieces, no checkpoint averaging, one seed.",
        "The paper's columns are newstest2013, English to German, at full "
        f"size: {papers.train_steps:,} updates (big 300,000) of "
        f"{papers.batch_tokens:,} tokens, 37,000 pieces, compound-split BLEU. "
        "Compare directions, not figures.",
        "PPL is un-smoothed and per piece of the vocabulary.",
    ]
    records = list(scores.values())
    if records:
        first = records[0]
        hardware = dict.fromkeys(
            (record["training"] or record)["hardware"] for record in records
        )
        facts.append(
            f"Data: {without_folders(first['dataset'])}, "
            f"{first['source_language']} to {first['target_language']}, split "
            f"{first['split']}, {first['sentences']:,} sentences; beam "
            f"{first['beam_size']}, α {first['alpha']:g}; BLEU "
            f"`{first['signature']}`; intervals `{first['bootstrap']}`; on "
            f"{'; '.join(hardware)}; {records[-1]['date']}."
        )
    return "\n".join(facts)


def _findings(scores):
    rows = [
        [
            finding.row,
            finding.claim,
            *(
                text
                for paper, ours, verdict in (finding.perplexity, finding.bleu)
                for text in (f"{paper:+.2f}", f"{ours:+.2f}", verdict)
            ),
        ]
        for finding in find(scores)
    ]
    if not rows:
        return ""
    columns = [
        "row",
        "the paper finds",
        *("PPL: paper", "here", "direction"),
        *("BLEU: paper", "here", "direction"),
    ]
    return (
        "Differences from base. BLEU within the wider 95 % interval and "
        "perplexity within half a percent are too close to tell.\n\n"
        + table(columns, rows)
    )
