"""Formats entries of scores.json as a Markdown page, with published scores."""

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


_PAPER = "Vaswani et al. 2017, Table 2"
_SPLIT = "tokenized, compound-split"
_WU = "Wu et al. 2021, arXiv 2105.14462"
_TOK = "lower-cased, Moses-tokenized; sacrebleu --tokenize none"

# Model, BLEU, how it was counted and the source, by data set, source and
# target language.
_WMT14 = {
    ("wmt14_translate/de-en", "en", "de"): (
        ("base", "27.3", _SPLIT, _PAPER),
        ("big", "28.4", _SPLIT, _PAPER),
        ("base", "27.7", "lower-cased", "TensorFlow Model Garden"),
        ("base", "26.93", "sacreBLEU", "OpenNMT-tf"),
        ("base", "24.38", "sacreBLEU", "JoeyNMT"),
        ("big", "28.6", "sacreBLEU", "fairseq (29.3 compound-split)"),
    ),
    ("wmt14_translate/fr-en", "en", "fr"): (
        ("base", "38.1", _SPLIT, _PAPER),
        ("big", "41.8", _SPLIT, _PAPER),
    ),
}
# Multi30k's test set of 2016 is read from text files of any name, so it is
# recognized by languages and numbers of sentences and reference tokens.
_MULTI30K = {
    ("en", "de", 1000, 12_103): (
        ("Transformer-Tiny", "41.02", _TOK, _WU),
        ("Transformer-Small", "39.68", _TOK, f"{_WU}, indirectly"),
        ("Transformer-Base", "38.33", _TOK, f"{_WU}, indirectly"),
    ),
    ("en", "fr", 1000, 13_988): (("Transformer-Tiny", "61.8", _TOK, _WU),),
}


def published_scores(record):
    """Returns the published scores on the test set of a scores.json entry."""
    languages = (record.get("source_language"), record.get("target_language"))
    dataset = record.get("dataset", "").partition(":")[0]
    if record.get("split") == "test" and (dataset, *languages) in _WMT14:
        return _WMT14[dataset, *languages]
    size = (record.get("sentences"), record.get("reference_length"))
    if "tok:none" not in record.get("signature", ""):
        return ()
    return _MULTI30K.get((*languages, *size), ())


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
    """Replaces the text between the two marks of a page.

    If the page has no marks, appends them with the text. InputError if one mark
    is missing, or they are in the wrong order.
    """
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

    def name(match):
        path = match[2]
        end = "/" * path.endswith("/")
        return match[1] + path.rstrip("/").rpartition("/")[2] + end

    return re.sub(r"(^|[=:,\s'\"])((?:~|\.\.)?/[^\s'\",]+)", name, text)


def _section(title, records):
    rows = [_row(number, each) for number, each in enumerate(records, 1)]
    parts = [
        f"### {title}",
        markdown_table(_COLUMNS, rows),
        "\n".join(
            f"{number}. {_provenance(record)}"
            for number, record in enumerate(records, 1)
        ),
    ]
    published = next(filter(None, map(published_scores, records)), ())
    if published:
        header = ["model", "BLEU", "how counted", "source"]
        parts.append("Published on the same set:")
        parts.append(markdown_table(header, published))
    return "\n\n".join(parts)


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
    """Returns the commands, weights, sizes and signatures of an entry."""
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
