"""Formats translations as lines: text, scores, alignments, n-best lists.

A format is a function of a sentence's number, from 0, and of its Translations,
best first, that returns lines.
"""

from export.lines.files import join_lines


def best_text(number, translations):
    """Returns the text of the best translation."""
    del number
    return [_text(translations[0])]


def scored_text(number, translations):
    """Returns "score TAB text"."""
    del number
    return [f"{_score(translations[0])}\t{_text(translations[0])}"]


def aligned_text(number, translations):
    """Returns "text TAB alignment", in Pharaoh's format: "0-0 1-2"."""
    del number
    return [f"{_text(translations[0])}\t{_pharaoh(translations[0])}"]


def scored_and_aligned_text(number, translations):
    """Returns "score TAB text TAB alignment"."""
    (line,) = scored_text(number, translations)
    return [f"{line}\t{_pharaoh(translations[0])}"]


def n_best_list(number, translations):
    """Returns Moses' n-best list, lines of "number ||| text ||| score"."""
    return [
        f"{number} ||| {_text(each)} ||| {_score(each)}"
        for each in translations
    ]


def line_format(several, scores):
    """Returns the format for one or for several translations per line."""
    if several:
        return n_best_list
    return scored_text if scores else best_text


def _text(translation):
    # Tabs separate columns.
    return join_lines(translation.text).replace("\t", " ")


def _score(translation):
    return f"{translation.score:.6f}"


def _pharaoh(translation):
    return " ".join(
        f"{source}-{target}" for source, target in translation.alignment
    )
