"""How translations are written, a line each: functions of (number, found).

`number` counts the sentences from 0; `found` is a list of Translation, best
first. All return a list of lines.
"""

# A line of input gives a line, whatever its translation holds.
_BREAKS = str.maketrans("\n\r\t", "   ")


def texts(number, found):
    """Returns the best translation alone."""
    del number
    return [_text(found[0])]


def scored(number, found):
    """Returns "score TAB text"."""
    del number
    return [f"{_score(found[0])}\t{_text(found[0])}"]


def aligned(number, found):
    """Returns "text TAB alignment", in Pharaoh's format: "0-0 1-2"."""
    del number
    return [f"{_text(found[0])}\t{_pharaoh(found[0])}"]


def scored_and_aligned(number, found):
    """Returns "score TAB text TAB alignment"."""
    (line,) = scored(number, found)
    return [f"{line}\t{_pharaoh(found[0])}"]


def n_best(number, found):
    """Returns Moses' n-best list, "number ||| text ||| score" each."""
    return [f"{number} ||| {_text(each)} ||| {_score(each)}" for each in found]


def _text(translation):
    return translation.text.translate(_BREAKS)


def _score(translation):
    return f"{translation.score:.6f}"


def _pharaoh(translation):
    return " ".join(
        f"{source}-{target}" for source, target in translation.alignment
    )
