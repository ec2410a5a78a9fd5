"""Selects the layer and heads to show, by flags or as in the paper."""

import dataclasses
import itertools
import re

import numpy as np

from export.common.errors import InputError


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """Selects a part of a sentence's attention; numbers count from 0.

    `kind` is "encoder" or "decoder" for self-attention, or "cross"; `heads` are
    in ascending order; `unit` is "words" or "pieces"; `word` is the number of
    the single row to show, None for all rows.
    """

    kind: str
    layer: int
    heads: tuple[int, ...]
    unit: str = "words"
    word: int | None = None


def update_view(
    view, sentence, kind=None, layer=None, heads=None, unit=None, word=None
):
    """Returns a view of a sentence with the given attributes changed.

    If encoder and decoder differ in their number of layers, a change of `kind`
    also selects the layer at the depth of the paper's, unless `layer` is given.
    `layer` and `heads` count from 1; `heads` is a list of str, or ["all"].
    `word` selects the first query with this text, or "#4" the fourth query if
    the text of none is "#4". Raises InputError for what does not exist.
    """
    changes = {}
    if kind or unit:
        # A row number stands for another word in another kind or unit.
        changes = {"word": None}
        changes |= {"kind": kind or view.kind, "unit": unit or view.unit}
    layers = sentence.layers[kind or view.kind]
    if layer is not None:
        changes["layer"] = _parse_number("layer", layer, layers)
    elif layers != sentence.layers[view.kind]:
        changes["layer"] = paper_layer(layers)
    if heads == ["all"]:
        changes["heads"] = tuple(range(sentence.heads))
    elif heads:
        numbers = {
            _parse_number("head", each, sentence.heads) for each in heads
        }
        changes["heads"] = tuple(sorted(numbers))
    view = dataclasses.replace(view, **changes)
    if word is None:
        return view
    return dataclasses.replace(view, word=_row_of_word(word, view, sentence))


def _parse_number(name, text, count):
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= count:
        raise InputError(
            f"Expected the number of a {name} from 1 to {count}, got {text}."
        )
    return number - 1


def _row_of_word(word, view, sentence):
    row = sentence.find(view.unit, view.kind, word)
    if row is not None:
        return row
    rows = sentence.part(view.unit, view.kind).rows
    if re.fullmatch("#[0-9]+", word):
        return _parse_number("word", word[1:], len(rows))
    raise InputError(
        f"Expected one of these {view.unit} as --word, or its number as #1, "
        f"got {word}: {' '.join(rows)}"
    )


_LAW = (
    "The Law will never be perfect, but its application should be just - "
    "this is what we are missing, in my opinion."
)
FIGURE_SENTENCES = {
    3: "It is in this spirit that a majority of American governments have "
    "passed new laws since 2009 making the registration or voting process "
    "more difficult.",
    4: _LAW,
    5: _LAW,
}


def paper_figure(number, sentence):
    """Returns the views of figure 3, 4 or 5 of the paper for another model.

    Head numbers are arbitrary, so heads are chosen by the subject of the
    figure: for Figure 4 the two that put the largest weight on one word, seen
    from "its"; for Figure 5 the two whose maps differ most. `sentence` is the
    SentenceAttention of `FIGURE_SENTENCES[number]`. Returns pairs of a name
    and an AttentionView, and a sentence on how they differ from the paper's.
    """
    layers = sentence.layers["encoder"]
    layer = paper_layer(layers)
    weights = sentence.part("words", "encoder").weights[layer]

    def view(heads, word=None):
        heads = tuple(sorted(heads))
        return AttentionView("encoder", layer, heads, word=word)

    if number == 3:
        making = sentence.find("words", "encoder", "making")
        views = [("Figure 3", view(range(sentence.heads), making))]
        here = f"all heads, {sentence.heads} of them, from \u201cmaking\u201d"
    elif number == 4:
        its = sentence.find("words", "encoder", "its")
        sharpness = weights[:, its or 0].max(axis=1)
        heads = np.argsort(-sharpness, kind="stable")[:2].tolist()
        views = [
            ("Figure 4, top", view(heads[:1])),
            ("Figure 4, bottom", view(heads, its)),
        ]
        here = f"{_head_names(heads)}, the sharpest from \u201cits\u201d"
    else:
        heads = max(
            itertools.combinations(range(sentence.heads), 2),
            key=lambda pair: np.abs(weights[pair[0]] - weights[pair[1]]).sum(),
            default=(0,),
        )
        names = "Figure 5, top", "Figure 5, bottom"
        views = [(name, view([head])) for name, head in zip(names, heads)]
        here = f"{_head_names(heads)}, whose maps differ most"
    note = (
        f"Figure {number} of the paper shows layer 5 of 6 of the encoder; "
        f"here: layer {layer + 1} of {layers}, {here}."
    )
    return views, note


def paper_layer(layers):
    """Returns the layer, from 0, at the relative depth of layer 5 of 6."""
    return max(1, (10 * layers + 6) // 12) - 1


def _head_names(heads):
    numbers = " and ".join(f"{head + 1}" for head in heads)
    return f"head {numbers}" if len(heads) == 1 else f"heads {numbers}"
