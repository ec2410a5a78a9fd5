"""Selects the layer and heads to render, by flags or as in the paper."""

import dataclasses
import itertools
import re
import typing
from collections.abc import Sequence

import numpy as np

from export.attention_views.word_attention import SentenceAttention
from export.common.errors import InputError

_LAW = (
    "The Law will never be perfect, but its application should be just - "
    "this is what we are missing, in my opinion."
)
# By figure number.
FIGURE_SENTENCES = {
    3: "It is in this spirit that a majority of American governments have "
    "passed new laws since 2009 making the registration or voting process "
    "more difficult.",
    4: _LAW,
    5: _LAW,
}


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """Selects the heads of one layer to render; indices count from 0.

    `kind` is "encoder" or "decoder" for self-attention, or "cross"; `heads` are
    in ascending order; `unit` is "words" or "pieces"; `word` is the index of
    the only query to render, None for all queries.
    """

    kind: str
    layer: int
    heads: tuple[int, ...]
    unit: str = "words"
    word: int | None = None


def update_view(
    view: AttentionView,
    attention: SentenceAttention,
    kind: str | None = None,
    layer: str | int | None = None,
    heads: Sequence[str] | None = None,
    unit: str | None = None,
    word: str | None = None,
) -> AttentionView:
    """Returns a copy of a view with the fields that are not None changed.

    If encoder and decoder differ in their number of layers, a change of `kind`
    also selects the layer at the paper's depth, unless `layer` is given.
    `layer` and `heads` count from 1; `heads` is a list of str, or ["all"].
    `word` selects the first query with this text, or "#4" the fourth query if
    the text of none is "#4". Raises InputError for a value out of range.
    """
    changes: dict[str, typing.Any] = {}
    if kind or unit:
        # The index stands for another word in another kind or unit.
        changes = {"word": None}
        changes |= {"kind": kind or view.kind, "unit": unit or view.unit}
    num_layers = attention.num_layers[kind or view.kind]
    if layer is not None:
        changes["layer"] = _parse_index("layer", layer, num_layers)
    elif num_layers != attention.num_layers[view.kind]:
        changes["layer"] = paper_layer(num_layers)
    num_heads = attention.num_heads
    if heads == ["all"]:
        changes["heads"] = tuple(range(num_heads))
    elif heads:
        indices = {_parse_index("head", head, num_heads) for head in heads}
        changes["heads"] = tuple(sorted(indices))
    view = dataclasses.replace(view, **changes)
    if word is not None:
        index = _find_word(word, view, attention)
        view = dataclasses.replace(view, word=index)
    return view


def _parse_index(name, text, count):
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= count:
        raise InputError(
            f"Expected the number of a {name} from 1 to {count}, got {text}."
        )
    return number - 1


def _find_word(word, view, attention):
    index = attention.find_query(view.unit, view.kind, word)
    if index is not None:
        return index
    queries = attention.matrices(view.unit, view.kind).queries
    if re.fullmatch("#[0-9]+", word):
        return _parse_index("word", word[1:], len(queries))
    raise InputError(
        f"Expected one of these {view.unit} as --word, or its number as #1, "
        f"got {word}: {' '.join(queries)}"
    )


def paper_figure(
    number: int, attention: SentenceAttention
) -> tuple[list[tuple[str, AttentionView]], str]:
    """Returns the views of Figure 3, 4 or 5 of the paper for another model.

    The order of heads is arbitrary, so they are chosen by the subject of the
    figure: for Figure 4 the two that put the largest weight on one word, seen
    from "its"; for Figure 5 the two whose weights differ most. `attention` is
    the SentenceAttention of `FIGURE_SENTENCES[number]`. Returns pairs of a name
    and an AttentionView, and a note on the differences from the paper.
    """
    num_layers = attention.num_layers["encoder"]
    layer = paper_layer(num_layers)
    weights = attention.matrices("words", "encoder").weights[layer]

    def make_view(heads, word=None):
        heads = tuple(sorted(heads))
        return AttentionView("encoder", layer, heads, word=word)

    if number == 3:
        making = attention.find_query("words", "encoder", "making")
        views = [("Figure 3", make_view(range(attention.num_heads), making))]
        choice = f"all {attention.num_heads} heads, from \u201cmaking\u201d"
    elif number == 4:
        its = attention.find_query("words", "encoder", "its")
        sharpness = weights[:, its or 0].max(axis=1)
        heads = np.argsort(-sharpness, kind="stable")[:2].tolist()
        views = [
            ("Figure 4, top", make_view(heads[:1])),
            ("Figure 4, bottom", make_view(heads, its)),
        ]
        choice = f"{_head_names(heads)}, the sharpest from \u201cits\u201d"
    else:
        heads = max(
            itertools.combinations(range(attention.num_heads), 2),
            key=lambda pair: np.abs(weights[pair[0]] - weights[pair[1]]).sum(),
            default=(0,),
        )
        names = "Figure 5, top", "Figure 5, bottom"
        views = [(name, make_view([head])) for name, head in zip(names, heads)]
        choice = f"{_head_names(heads)}, whose weights differ most"
    note = (
        f"Figure {number} of the paper shows layer 5 of 6 of the encoder; "
        f"here: layer {layer + 1} of {num_layers}, {choice}."
    )
    return views, note


def paper_layer(num_layers: int) -> int:
    """Returns the layer, from 0, at the relative depth of layer 5 of 6."""
    return max(1, (10 * num_layers + 6) // 12) - 1


def _head_names(heads):
    numbers = " and ".join(f"{head + 1}" for head in heads)
    return f"head {numbers}" if len(heads) == 1 else f"heads {numbers}"
