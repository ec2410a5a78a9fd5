"""What an answer looks like as lines: text, scores, alignments, n-best lists.

Each format is a function of the number of a sentence, from 0, and of its
Translations, best first, that returns lines.
"""

from export.lines.files import join_lines


def best_text(number, found):
    """Returns the best translation alone."""
    del number
    return [_text(found[0])]


def scored_text(number, found):
    """Returns "score TAB text"."""
    del number
    return [f"{_score(found[0])}\t{_text(found[0])}"]


def aligned_text(number, found):
    """Returns "text TAB alignment", in Pharaoh's format: "0-0 1-2"."""
    del number
    return [f"{_text(found[0])}\t{_pharaoh(found[0])}"]


def scored_and_aligned_text(number, found):
    """Returns "score TAB text TAB alignment"."""
    (line,) = scored_text(number, found)
    return [f"{line}\t{_pharaoh(found[0])}"]


def n_best_list(number, found):
    """Returns Moses' n-best list, "number ||| text ||| score" each."""
    return [f"{number} ||| {_text(each)} ||| {_score(each)}" for each in found]


def line_format(several, scores):
    """Returns which of these writes the best alone, or several.

    Args:
        several: whether more than the best is wanted.
        scores: whether the score comes before the text of the best.
    """
    if several:
        return n_best_list
    return scored_text if scores else best_text


def _text(translation):
    # A line of input gives a line, and tabs part its columns.
    return join_lines(translation.text).replace("\t", " ")


def _score(translation):
    return f"{translation.score:.6f}"


def _pharaoh(translation):
    return " ".join(
        f"{source}-{target}" for source, target in translation.alignment
    )
