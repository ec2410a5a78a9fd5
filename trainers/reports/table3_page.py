"""Formats Table 3 as Markdown, in the paper's layout."""

import dataclasses

from export.common.progress_bar import clock
from trainers.reports.markdown_table import markdown_table
from trainers.reports.published_scores import TABLE_3
from trainers.reports.results_page import hide_folders

_FIELDS = {
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


def make_table3_page(rows, scores, scale):
    """Returns Table 3; values equal to base's are blank, as in the paper.

    `rows` are Table3Rows, base first; `scores` is a dict of each finished row's
    name to its entry of scores.json; `scale` is the factor on the widths.
    """
    base = rows[0].config
    base_values = _values(base)
    lines = []
    for row in rows:
        values = [
            _short(value) if row is rows[0] or value != base_value else ""
            for value, base_value in zip(_values(row.config), base_values)
        ]
        label = row.name + _other_fields(row.config, base)
        lines.append([label, *values, *_measured(row, scores)])
    description = _description(base, scores, scale)
    table = markdown_table(_COLUMNS, lines)
    return f"# Table 3 at scale {scale:g}\n\n{description}\n\n{table}\n"


def _values(config):
    layers, *others = (getattr(config, field) for field in _FIELDS.values())
    if config.decoder_layers != layers:
        layers = f"{layers} + {config.decoder_layers}"
    return [layers, *others]


def _short(value):
    return value if isinstance(value, str) else f"{value:g}"


def _other_fields(config, base):
    """Returns the fields without a column that differ from base."""
    shown = {*_FIELDS.values(), "num_decoder_layers"}
    others = [
        f"{field}={value}"
        for field, value in dataclasses.asdict(config).items()
        if field not in shown and value != getattr(base, field)
    ]
    return f" ({', '.join(others)})" if others else ""


def _measured(row, scores):
    ours, paper = [_UNFINISHED, "", "", "", ""], ["", "", ""]
    if row.name in scores:
        record = scores[row.name]
        training = record["training"]
        ours = [
            f"{record['perplexity']['per_token']:.2f}",
            f"{record['score']:.2f}",
            "{:.2f} to {:.2f}".format(*record["confidence_95"]),
            f"{record['parameters'] / 1e6:.2f}",
            clock(training["seconds"]) if training else "",
        ]
    if row.name in TABLE_3:
        perplexity, bleu, parameters = TABLE_3[row.name]
        paper = [f"{perplexity:.2f}", f"{bleu:.1f}", str(parameters or "")]
    return [*ours, *paper]


def _description(base, scores, scale):
    facts = [
        f"Every row has d_model, d_ff, d_k and d_v times {scale:g} and the "
        f"same budget: {base.train_steps:,} updates of {base.batch_tokens:,} "
        f"positions a side, warm-up {base.warmup_steps:,}, a vocabulary of "
        f"{base.vocabulary_size:,} tokens, no checkpoint averaging, one seed.",
        "The paper's columns are newstest2013, English to German, at full "
        "size: 100,000 updates (big 300,000) of 25,000 tokens, a vocabulary "
        "of 37,000, compound-split BLEU. Compare directions, not figures.",
        "PPL is un-smoothed and per token of the vocabulary.",
    ]
    records = list(scores.values())
    if records:
        first = records[0] | {"dataset": hide_folders(records[0]["dataset"])}
        hardware = dict.fromkeys(
            (record["training"] or record)["hardware"] for record in records
        )
        facts.append(
            "Data: {dataset}, {source_language} to {target_language}, split "
            "{split}, {sentences:,} sentences; beam {beam_size}, α {alpha:g}; "
            "BLEU `{signature}`; intervals `{bootstrap}`; on "
            "{hardware}; {date}.".format_map(
                first
                | {"hardware": "; ".join(hardware), "date": records[-1]["date"]}
            )
        )
    return "\n".join(facts)
