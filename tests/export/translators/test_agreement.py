"""Figures against those worked out by hand."""

import pytest

from export.translators.text_translator import Translation, agreement


def test_figures_by_hand():
    ours = [Translation("a", -1.0), Translation("b", -2.0), Translation("", 0)]
    theirs = [
        Translation("a", -1.25),
        Translation("B", -1.0),
        Translation("", 0),
    ]
    found = agreement(ours, theirs)
    assert found.sentences == 3
    assert found.identical == 2
    assert found.where_identical == (0.125, 0.25)
    assert found.everywhere == (pytest.approx(1.25 / 3), 1.0)


def test_nothing_in_common():
    found = agreement([Translation("a", -1.0)], [Translation("b", -3.0)])
    assert found == (1, 0, (0.0, 0.0), (2.0, 2.0))


def test_a_missing_translation_is_a_fault():
    with pytest.raises(ValueError):
        agreement([Translation("a", -1.0)], [])
