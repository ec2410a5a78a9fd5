"""What --kind, --layer, --heads, --unit, --word and --figure choose."""

import itertools

import numpy as np
import pytest

from export.attention_views.view import (
    FIGURE_SENTENCES,
    AttentionView,
    paper_figure,
    paper_layer,
    update_view,
)
from export.attention_views.word_attention import SentenceAttention
from export.common.errors import InputError
from tests.export.attention_views import attended

TEXT = "The old, old car stopped."
FIRST = AttentionView("encoder", 1, (0, 1), word=2)


@pytest.fixture(scope="module")
def attention():
    return SentenceAttention(attended.maps(TEXT, "Das Auto hielt."))


@pytest.mark.parametrize(
    "flags, expected",
    [
        ({"layer": 3}, AttentionView("encoder", 2, (0, 1), word=2)),
        ({"heads": ["4", "2"]}, AttentionView("encoder", 1, (1, 3), word=2)),
        ({"heads": ["all"]}, AttentionView("encoder", 1, (0, 1, 2, 3), word=2)),
        ({"word": "stopped"}, AttentionView("encoder", 1, (0, 1), word=4)),
        (
            {"kind": "cross", "unit": "pieces", "word": "Auto"},
            AttentionView("cross", 1, (0, 1), "pieces", word=1),
        ),
        ({"layer": 4}, "layer"),
        ({"heads": ["2", "5"]}, "head"),
        ({"word": "car!"}, "word"),
    ],
)
def test_flags_change_the_view(attention, flags, expected):
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            update_view(FIRST, attention, **flags)
    else:
        assert update_view(FIRST, attention, **flags) == expected


def test_another_kind_may_have_other_layers():
    attention = SentenceAttention(
        attended.maps(TEXT, "Das Auto hielt.", layers=6, decoder_layers=2)
    )
    assert attention.num_layers == {"encoder": 6, "decoder": 2, "cross": 2}
    view = AttentionView("encoder", 4, (0,))
    for flags, kind, layer in (
        ({"unit": "pieces"}, "encoder", 4),
        ({"kind": "cross"}, "cross", 1),
        ({"kind": "decoder", "layer": 1}, "decoder", 0),
    ):
        found = update_view(view, attention, **flags)
        assert (found.kind, found.layer) == (kind, layer)
    with pytest.raises(InputError):
        update_view(view, attention, kind="cross", layer=3)
    # Five sixths up.
    found = [paper_layer(layers) + 1 for layers in (1, 2, 3, 4, 6, 12)]
    assert found == [1, 2, 3, 3, 5, 10]


def test_a_word_of_the_sentence_is_no_number():
    words = ["#metoo", "#2", "#1", "is", "#"]
    attention = SentenceAttention(attended.maps(" ".join(words), "Ja."))
    for word, number in (("#2", 1), ("#1", 2), ("#5", 4)):
        assert update_view(FIRST, attention, word=word).word == number
    for word in ("#0", "#\u00b2", "#7"):
        with pytest.raises(InputError):
            update_view(FIRST, attention, word=word)


def figure(number, **size):
    """Returns the views without names, the note and the weights of words."""
    maps = attended.maps(FIGURE_SENTENCES[number], "Ja.", **size)
    views, note = paper_figure(number, SentenceAttention(maps))
    return [view for _, view in views], note, attended.by_words(maps, "encoder")


def test_figure_3_shows_all_heads_from_making():
    [view], note, _ = figure(3, layers=6, heads=8)
    assert view.heads == tuple(range(8))
    assert FIGURE_SENTENCES[3].split()[view.word] == "making"
    assert "layer 5 of 6, all 8 heads" in note


def test_figure_4_shows_the_heads_that_are_sharpest_from_its():
    (top, bottom), note, weights = figure(4, layers=2, heads=5)
    its = FIGURE_SENTENCES[4].split().index("its")
    sharpness = weights[1][:, its].max(axis=1)
    best, second = np.argsort(-sharpness)[:2].tolist()
    assert (top.heads, top.word) == ((best,), None)
    assert (bottom.heads, bottom.word) == (tuple(sorted((best, second))), its)
    assert f"layer 2 of 2, heads {best + 1} and {second + 1}" in note


def test_figure_5_shows_the_two_heads_that_differ_most():
    views, _, weights = figure(5, layers=3, heads=4)
    differences = {
        pair: np.abs(weights[2][pair[0]] - weights[2][pair[1]]).sum()
        for pair in itertools.combinations(range(4), 2)
    }
    heads = tuple(view.heads[0] for view in views)
    assert heads == max(differences, key=differences.get)
    for number in FIGURE_SENTENCES:
        views, *_ = figure(number, layers=1, heads=1)
        assert {view.heads for view in views} == {(0,)}
