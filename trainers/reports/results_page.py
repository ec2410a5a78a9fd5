"""Formats entries of scores.json as Markdown."""

import re
import typing
from collections.abc import Iterable

from tabulate import tabulate

from export.common.errors import InputError
from export.common.progress_bar import format_duration

BEGIN = "<!-- begin: made by python -m trainers.results -->"
END = "<!-- end: made by python -m trainers.results -->"
_UNKNOWN = "–"
# Templates for a record with `number`, `time`, `hardware` and `penalty`.
_COLUMNS = {
    "": "{number}",
    "BLEU": "**{score:.2f}**",
    "95 % interval": "{confidence_95[0]:.2f} to {confidence_95[1]:.2f}",
    "compound-split BLEU": "{compound_split_bleu[score]:.2f}",
    "chrF": "{chrf[score]:.2f}",
    "perplexity": "{perplexity[per_token]:.2f}",
    "beam, α": "{beam_size}, {alpha}{penalty}",
    "updates": "{step:,}",
    "training": "{time}",
    "hardware": "{hardware}",
    "date": "{date}",
}
_NOISE_COLUMN = "{{noise[{}][score]:.2f}}"
_PROVENANCE = (
    "weights: {weights}",
    "{parameters:,} parameters",
    "{sentences:,} sentences",
    "{references:,} references",
    "BLEU `{signature}`",
    "compound-split `{compound_split_bleu[signature]}`",
    "chrF `{chrf[signature]}`",
    "interval: sacreBLEU's bootstrap `{bootstrap}`",
)


def make_results_page(records: Iterable[dict[str, typing.Any]]) -> str:
    """Returns Markdown of entries of scores.json, a section per test set."""
    sections: dict[str, list[dict[str, typing.Any]]] = {}
    for record in records:
        languages = record.get("source_language"), record.get("target_language")
        parts = [
            hide_folders(record["dataset"]),
            " to ".join(filter(None, languages)),
            f"split {record['split']}",
        ]
        title = ", ".join(filter(None, parts))
        known = {k: value for k, value in record.items() if value is not None}
        sections.setdefault(title, []).append(known)
    return "\n\n".join(
        _section(title, records) for title, records in sections.items()
    )


def replace_between_marks(page: str, text: str) -> str:
    """Replaces the text between the two marks of a page, or appends both."""
    marked = f"{BEGIN}\n\n{text}\n\n{END}"
    if BEGIN not in page and END not in page:
        return f"{page.rstrip()}\n\n{marked}\n".lstrip()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(
            f"Expected a page with {BEGIN} followed by {END}, or with "
            "neither; complete the pair or remove the mark."
        )
    return before + marked + after


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns an aligned Markdown table."""
    return tabulate(rows, header, "github", disable_numparse=True)


def hide_folders(text: str) -> str:
    """Shortens paths outside of the working directory to their last name."""
    return re.sub(
        r"(^|[=:,\s'\"])(?:~|\.\.)?/(?:[^\s'\",]*/)?([^\s'\",/]+/?)",
        r"\1\2",
        text,
    )


def _section(title, records):
    kinds = dict.fromkeys(k for each in records for k in each.get("noise", ()))
    columns = _COLUMNS | {kind: _NOISE_COLUMN.format(kind) for kind in kinds}
    rows, notes = [], []
    for number, record in enumerate(records, 1):
        rows.append(_row(number, record, columns))
        notes.append(f"{number}. {_provenance(record)}")
    table = markdown_table(columns, rows)
    return "\n\n".join([f"### {title}", table, "\n".join(notes)])


def _row(number, record, columns):
    training = record.get("training")
    time = _UNKNOWN
    if training:
        time = format_duration(training["seconds"])
        if training["steps"] != record.get("step"):
            time += f" for {training['steps']:,} updates"
    is_power = record.get("length_penalty") == "power"
    values = record | {
        "number": number,
        "time": time,
        "hardware": (training or record).get("hardware", _UNKNOWN),
        "penalty": " (length^α)" if is_power else "",
    }
    return [_format(template, values) for template in columns.values()]


def _format(template, values):
    try:
        return template.format_map(values)
    except (LookupError, TypeError):
        return _UNKNOWN


def _provenance(record):
    training = record.get("training") or {}
    commands = [training.get("command"), record.get("command")]
    facts = [
        f"`{command}`" for command in dict.fromkeys(filter(None, commands))
    ]
    facts += [_format(template, record) for template in _PROVENANCE]
    known = [fact for fact in facts if fact != _UNKNOWN]
    return hide_folders("; ".join(known)) + "."
