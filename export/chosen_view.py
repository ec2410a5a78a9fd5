"""The view that a user asks for, in numbers from 1."""

import dataclasses

from export.errors import InputError


def chosen_view(
    view, sentence, kind=None, layer=None, heads=None, unit=None, word=None
):
    """Changes a view to what was asked for; None leaves what it is.

    Args:
        view: AttentionView.
        sentence: AttendedSentence that is to be shown.
        kind: of its KINDS.
        layer: number of the layer, from 1.
        heads: list of str: numbers of the heads from 1, or "all" alone.
        unit: of its UNITS.
        word: str: a word that looks, the first such, or "#4" for the fourth
            of all.

    Returns:
        An AttentionView.

    Raises:
        InputError: there is no such layer, head or word.
    """
    changes = {}
    if kind or unit:
        # A word of other lists would be another word.
        changes = {
            "kind": kind or view.kind,
            "unit": unit or view.unit,
            "word": None,
        }
    if layer is not None:
        changes["layer"] = _number("layer", layer, sentence.layers)
    if heads == ["all"]:
        changes["heads"] = tuple(range(sentence.heads))
    elif heads:
        numbers = {_number("head", each, sentence.heads) for each in heads}
        changes["heads"] = tuple(sorted(numbers))
    view = dataclasses.replace(view, **changes)
    if word is None:
        return view
    return dataclasses.replace(view, word=_word(word, view, sentence))


def _number(name, given, count):
    try:
        number = int(given)
    except ValueError:
        number = 0
    if not 1 <= number <= count:
        raise InputError(
            f"There is no {name} {given}; they are numbered from 1 to {count}."
        )
    return number - 1


def _word(word, view, sentence):
    rows = sentence.part(view.unit, view.kind).rows
    if word.startswith("#") and word != "#":
        return _number("word", word[1:], len(rows))
    found = sentence.find(view.unit, view.kind, word)
    if found is None:
        raise InputError(
            f"--word={word} is none of the {view.unit} that look; take one of "
            f"these, or its number as #1: {' '.join(rows)}"
        )
    return found
