"""What trees look like as lines, beside the formats of `export.lines`.

As there, a format is a function of the number of a sentence, from 0, and of its
Parses, best first, that returns lines.
"""

_MARGIN = 79


def indented(number, found):
    """Returns the best tree as Penn treebanks print it, then a blank line."""
    del number
    return [*_lines(found[0]), ""]


def scored_indented(number, found):
    """The same after a line with its score."""
    return [_score(found[0]), *indented(number, found)]


def n_best_indented(number, found):
    """Returns each tree after "number ||| score", then a blank line."""
    return [
        line
        for each in found
        for line in [f"{number} ||| {_score(each)}", *_lines(each), ""]
    ]


def indented_format(several, scores):
    """Returns which of these writes the best alone, or several.

    Args:
        several: whether more than the best is wanted.
        scores: whether the score comes before the tree of the best.
    """
    if several:
        return n_best_indented
    return scored_indented if scores else indented


def without_blank(line_format):
    """Returns a format that gives nothing for a sentence without words.

    Args:
        line_format: any other.
    """

    def lines(number, found):
        return [] if found[0].tree is None else line_format(number, found)

    return lines


def drawn(line_format, pictures):
    """Returns a format that draws the trees as well.

    Args:
        line_format: any other.
        pictures: export.parsing.drawing.Pictures.
    """

    def lines(number, found):
        pictures.draw(number, found)
        return line_format(number, found)

    return lines


def _lines(parse):
    if parse.tree is None:
        return []
    return parse.tree.pformat(margin=_MARGIN).split("\n")


def _score(parse):
    return f"{parse.score:.6f}"
