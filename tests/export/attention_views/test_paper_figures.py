"""Figures 3 to 5 of the paper, fitted to other models."""

import itertools

import numpy as np
import pytest

from export.attention_views.view import SENTENCES, paper_figure, paper_layer
from export.attention_views.words import AttendedSentence
from tests.export.attention_views import attended


def figure(number, **size):
    maps = attended.maps(SENTENCES[number], "Ja.", **size)
    return paper_figure(number, AttendedSentence(maps)), maps


def by_words(maps, layer):
    words = attended.words(maps.source_tokens)
    return attended.merged(maps.encoder, words, words)[layer]


def test_the_layer_is_as_deep_as_in_the_paper():
    found = {layers: paper_layer(layers) + 1 for layers in (1, 2, 3, 4, 6, 12)}
    assert found == {1: 1, 2: 2, 3: 3, 4: 3, 6: 5, 12: 10}


def test_figure_3_shows_all_heads_from_making():
    found, _ = figure(3, layers=6, heads=8)
    [(_, view)] = found.views
    assert (view.kind, view.layer, view.unit) == ("encoder", 4, "words")
    assert view.heads == tuple(range(8))
    assert SENTENCES[3].split()[view.word] == "making"
    assert "layer 5 of 6, all heads" in found.note


def test_figure_4_shows_the_heads_that_are_sharpest_from_its():
    found, maps = figure(4, layers=2, heads=5)
    its = SENTENCES[4].split().index("its")
    sharpness = by_words(maps, 1)[:, its].max(axis=1)
    best, second = np.argsort(-sharpness)[:2].tolist()
    (_, top), (_, bottom) = found.views
    assert (top.heads, top.word) == ((best,), None)
    assert (bottom.heads, bottom.word) == (tuple(sorted((best, second))), its)
    assert f"layer 2 of 2, heads {best + 1} and {second + 1}" in found.note


def test_figure_5_shows_the_two_heads_that_differ_most():
    found, maps = figure(5, layers=3, heads=4)
    weights = by_words(maps, 2)
    apart = {
        pair: np.abs(weights[pair[0]] - weights[pair[1]]).sum()
        for pair in itertools.combinations(range(4), 2)
    }
    shown = tuple(view.heads[0] for _, view in found.views)
    assert shown == max(apart, key=apart.get)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_one_head_is_enough(number):
    found, _ = figure(number, layers=1, heads=1)
    assert {view.heads for _, view in found.views} == {(0,)}


def test_a_text_that_lacks_the_word_shows_all():
    maps = attended.maps("Short.", "Kurz.")
    found = paper_figure(4, AttendedSentence(maps))
    assert [view.word for _, view in found.views] == [None, None]
