"""Formats entries of scores.json as Markdown."""

import functools
import re

from tabulate import tabulate

from export.common.errors import InputError
from export.common.progress_bar import clock

BEGIN = "<!-- begin: made by python -m trainers.results -->"
END = "<!-- end: made by python -m trainers.results -->"
_UNKNOWN = "–"
_COLUMNS = (
    *("", "BLEU", "95 % interval", "compound-split BLEU", "chrF"),
    *("perplexity", "beam, α", "updates", "training", "hardware", "date"),
)


def make_results_page(records):
    """Returns Markdown of entries of scores.json, a section per test set."""
    sections = {}
    for record in records:
        languages = ("source_language", "target_language")
        direction = " to ".join(filter(None, map(record.get, languages)))
        parts = [hide_folders(record["dataset"]), direction]
        title = ", ".join(filter(None, [*parts, f"split {record['split']}"]))
        known = {n: value for n, value in record.items() if value is not None}
        sections.setdefault(title, []).append(known)
    return "\n\n".join(
        _section(title, records) for title, records in sections.items()
    )


def replace_between_marks(page, text):
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


def markdown_table(header, rows):
    """Returns an aligned Markdown table of str."""
    return tabulate(rows, header, "github", disable_numparse=True)


def hide_folders(text):
    """Shortens each path outside of the working folder to its last name."""
    return re.sub(
        r"(^|[=:,\s'\"])(?:~|\.\.)?/(?:[^\s'\",]*/)?([^\s'\",/]+/?)",
        r"\1\2",
        text,
    )


def _section(title, records):
    rows, notes = [], []
    for number, record in enumerate(records, 1):
        rows.append(_row(number, record))
        notes.append(f"{number}. {_provenance(record)}")
    table = markdown_table(_COLUMNS, rows)
    return "\n\n".join([f"### {title}", table, "\n".join(notes)])


def _row(number, record):
    training = record.get("training") or {}
    time = _UNKNOWN
    if training:
        time = clock(training["seconds"])
        if training["steps"] != record.get("step"):
            time += f" for {training['steps']:,} updates"
    power = " (length^α)" if record.get("length_penalty") == "power" else ""
    get = functools.partial(_format, record)
    return [
        str(number),
        f"**{record['score']:.2f}**",
        get("{confidence_95[0]:.2f} to {confidence_95[1]:.2f}"),
        get("{compound_split_bleu[score]:.2f}"),
        get("{chrf[score]:.2f}"),
        get("{perplexity[per_token]:.2f}"),
        get("{beam_size}, {alpha}") + power,
        get("{step:,}"),
        time,
        (training or record).get("hardware", _UNKNOWN),
        get("{date}"),
    ]


def _format(record, text):
    try:
        return text.format_map(record)
    except (LookupError, TypeError):
        return _UNKNOWN


def _provenance(record):
    training = record.get("training") or {}
    commands = [training.get("command"), record.get("command")]
    facts = [f"`{each}`" for each in dict.fromkeys(filter(None, commands))]
    facts += [
        _format(record, text)
        for text in (
            "weights: {weights}",
            "{parameters:,} parameters",
            "{sentences:,} sentences",
            "{references:,} references",
            "BLEU `{signature}`",
            "compound-split `{compound_split_bleu[signature]}`",
            "chrF `{chrf[signature]}`",
            "interval: sacreBLEU's bootstrap `{bootstrap}`",
        )
    ]
    known = [each for each in facts if each != _UNKNOWN]
    return hide_folders("; ".join(known)) + "."
