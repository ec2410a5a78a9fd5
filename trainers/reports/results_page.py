"""Entries of scores.json as a page of Markdown."""

import re

from export.errors import InputError
from export.progress_bar import clock
from trainers.reports.published_scores import published_scores

BEGIN = "<!-- begin: made by python -m trainers.results -->"
END = "<!-- end: made by python -m trainers.results -->"
_NOT_KNOWN = "–"
_COLUMNS = (
    "",
    "BLEU",
    "95 % interval",
    "compound-split BLEU",
    "chrF",
    "perplexity",
    "beam, α",
    "updates",
    "training",
    "hardware",
    "date",
)


def make_page(records):
    """Returns Markdown: a section for each set, a row for each entry.

    Args:
        records: entries of scores.json, list of dict.
    """
    sets = {}
    for record in records:
        sets.setdefault(_title(record), []).append(record)
    return "\n\n".join(_section(title, group) for title, group in sets.items())


def put_between_marks(page, text):
    """Puts text between the two marks of a page.

    Args:
        page: the page; without marks the text goes to its end, with marks.
        text: what to put there.

    Raises:
        InputError: only one mark is there, or they are in the wrong order.
    """
    marked = f"{BEGIN}\n\n{text}\n\n{END}"
    if BEGIN not in page and END not in page:
        return f"{page.rstrip()}\n\n{marked}\n".lstrip()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(
            f"The page must hold {BEGIN} and after it {END}, or neither."
        )
    return before + marked + after


def without_folders(text):
    """Shortens each path that leads out of the working folder to its name."""

    def name(match):
        path = match[2]
        end = "/" * path.endswith("/")
        return match[1] + path.rstrip("/").rpartition("/")[2] + end

    return re.sub(r"(^|[=:,\s'\"])((?:~|\.\.)?/[^\s'\",]+)", name, text)


def table(columns, rows):
    """Returns a Markdown table of str."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _title(record):
    direction = " to ".join(
        filter(None, map(record.get, ("source_language", "target_language")))
    )
    return ", ".join(
        filter(
            None,
            [
                without_folders(record["dataset"]),
                direction,
                f"split {record['split']}",
            ],
        )
    )


def _section(title, records):
    published = next(filter(None, map(published_scores, records)), ())
    rows = [_row(number, each) for number, each in enumerate(records, 1)]
    parts = [
        f"### {title}",
        table(_COLUMNS, rows),
        "\n".join(
            f"{number}. {_made(record)}"
            for number, record in enumerate(records, 1)
        ),
        _signatures(records),
    ]
    if published:
        rows = [
            [each.model, f"{each.score:g}", each.how, each.source]
            for each in published
        ]
        parts.append("Published on the same set:")
        parts.append(table(["model", "BLEU", "how counted", "source"], rows))
    return "\n\n".join(parts)


def _row(number, record):
    return [
        str(number),
        f"**{record['score']:.2f}**",
        _interval(record.get("confidence_95")),
        _figure(record.get("compound_split_bleu"), "score"),
        _figure(record.get("chrf"), "score"),
        _figure(record.get("perplexity"), "per_token"),
        _search(record),
        _count(record.get("step")),
        _training(record),
        (record.get("training") or record).get("hardware", _NOT_KNOWN),
        record.get("date", _NOT_KNOWN),
    ]


def _search(record):
    beam, alpha, penalty = (
        record.get(name, _NOT_KNOWN)
        for name in ("beam_size", "alpha", "length_penalty")
    )
    return f"{beam}, {alpha}" + (" (length^α)" if penalty == "power" else "")


def _interval(interval):
    if not interval:
        return _NOT_KNOWN
    low, high = interval
    return f"{low:.2f} to {high:.2f}"


def _figure(measure, name):
    return f"{measure[name]:.2f}" if measure else _NOT_KNOWN


def _count(count):
    return _NOT_KNOWN if count is None else f"{count:,}"


def _training(record):
    training = record.get("training")
    if not training:
        return _NOT_KNOWN
    time = clock(training["seconds"])
    if training["steps"] != record.get("step"):
        time += f" for {training['steps']:,} updates"
    return time


def _made(record):
    training = record.get("training") or {}
    facts = [
        f"`{without_folders(command)}`"
        for command in dict.fromkeys(
            (training.get("command"), record.get("command"))
        )
        if command
    ]
    if record.get("weights"):
        facts.append(f"weights: {record['weights']}")
    if record.get("parameters"):
        facts.append(f"{record['parameters']:,} parameters")
    if record.get("sentences"):
        facts.append(_sentences(record))
    return "; ".join(facts) + "."


def _sentences(record):
    sentences = f"{record['sentences']:,} sentences"
    if record.get("references"):
        sentences += f", {record['references']:,} references"
    return sentences


def _signatures(records):
    lines = []
    for name, measure in (
        ("BLEU", lambda record: record),
        ("compound-split", lambda record: record.get("compound_split_bleu")),
        ("chrF", lambda record: record.get("chrf")),
    ):
        found = [measure(record) for record in records]
        for signature in dict.fromkeys(m["signature"] for m in found if m):
            rows = [
                str(number)
                for number, each in enumerate(found, 1)
                if each and each["signature"] == signature
            ]
            lines.append(f"- {name} of {', '.join(rows)}: `{signature}`")
    hows = dict.fromkeys(
        record["bootstrap"] for record in records if "bootstrap" in record
    )
    lines += [f"- interval: sacreBLEU's bootstrap, `{how}`" for how in hows]
    return "\n".join(lines)
