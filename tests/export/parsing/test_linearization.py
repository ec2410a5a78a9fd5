"""Trees as lines of symbols, there and back."""

import itertools
import json
import re

import pytest
from hypothesis import given
from nltk.tree import Tree

from export.parsing.linearization import (
    FIRST_SYMBOL_ID,
    SymbolVocabulary,
    delinearize,
    linearize,
    measure_nesting,
)
from export.parsing.trees import read_tree, tree_words
from keras_transformer import config
from tests.export.parsing.made_trees import normal_trees


@pytest.mark.parametrize(
    "tree, line",
    [
        (
            "(S (NP (DT The) (NN cell)) (VP (VBZ divides)))",
            "(S (NP DT NN )NP (VP VBZ )VP )S",
        ),
        ("( (NN cell))", "NN"),
        ("( (S (NN a)) (. .))", "(TOP (S NN )S . )TOP"),
        ("(S (-LRB- -LRB-) (X (-RRB- ])))", "(S -LRB- (X -RRB- )X )S"),
    ],
)
def test_lines_written_by_hand(tree, line):
    tree = read_tree(tree)
    assert linearize(tree) == line.split()
    assert delinearize(line.split(), tree_words(tree)) == tree


@given(normal_trees())
def test_there_and_back(tree):
    symbols = linearize(tree)
    assert delinearize(symbols, tree.leaves()) == tree
    inner = tree[0] if len(tree) == 1 else tree
    runs = re.findall(r"(?:\(\S+ )+", " ".join(symbols))
    assert measure_nesting(symbols) == (
        inner.height() - 2,
        max((run.count("(") for run in runs), default=0),
    )


def test_of_all_short_lines_exactly_those_of_trees_are_read():
    alphabet = ["(A", ")A", "(B", ")B", "t"]
    read = 0
    lines = (itertools.product(alphabet, repeat=length) for length in range(7))
    for symbols in itertools.chain(*lines):
        for count in range(4):
            try:
                tree = delinearize(symbols, "xyz"[:count])
            except ValueError:
                continue
            read += 1
            assert linearize(tree) == list(symbols)
            assert tree.leaves() == list("xyz"[:count])
    # t; in one bracket 1 to 3 words (lines of 3, 4, 5) of 2 labels, in two
    # around all of 1 or 2 (lines of 5, 6) 4 each; two words in brackets of
    # which the inner one has one or the other (lines of 6) 2 * 4.
    assert read == 1 + 3 * 2 + 2 * 4 + 2 * 4


def test_a_needless_root_is_one_root():
    assert delinearize(["(TOP", "NN", ")TOP"], ["x"]) == read_tree("(NN x)")
    with pytest.raises(ValueError):
        linearize(Tree.fromstring("(S (NN x))"))


def test_symbols_and_their_ids():
    lines = ["(S (VP (VB go) (NP (NN x))))", "(NP (X (NN y)))", "(NN x)"]
    symbols = SymbolVocabulary.from_trees(map(read_tree, lines))
    assert symbols == SymbolVocabulary(
        ("NP", "S", "VP", "X"), ("NN", "VB"), 3, 2
    )
    # Padding, unknown, begin and end come first.
    ids = config.PAD_ID, config.UNKNOWN_ID, config.BEGIN_ID, config.END_ID
    assert max(ids) + 1 == FIRST_SYMBOL_ID
    assert symbols.vocabulary_size == 4 + 4 + 4 + 2
    assert symbols.first_tag_id == 12
    line = ["(NP", "(S", "(VP", "(X", ")NP", ")S", ")VP", ")X", "NN", "VB"]
    assert symbols.encode(line) == list(range(4, 14))
    assert symbols.decode(range(4, 14)) == line
    assert SymbolVocabulary.from_json(symbols.to_json()) == symbols
    for symbol, name in ((")NX", "label 'NX'"), ("NP", "tag 'NP'")):
        with pytest.raises(ValueError, match=name):
            symbols.encode([symbol])
    for id_ in (-1, 3, 14):
        with pytest.raises(ValueError):
            symbols.decode([4, id_])
    with pytest.raises(ValueError):
        SymbolVocabulary.from_trees([])


def test_changed_json_is_refused():
    good = {"labels": ["NP", "S"], "tags": ["NN"], "max_depth": 1}
    good["max_open"] = 1
    assert SymbolVocabulary.from_json(json.dumps(good)).tags == ("NN",)
    wrong = {
        "labels": [["S", "NP"], ["S", "S"], [""], ["N P"], ["(S"], [1], "S"],
        "tags": [[], [None], {}, ["\u2009"]],
        "max_open": [-1, 1.0, True, None],
        "more": [1],
    }
    texts = [
        json.dumps(good | {name: value})
        for name, values in wrong.items()
        for value in values
    ]
    for text in [*texts, "", "[]", "{}"]:
        with pytest.raises(ValueError):
            SymbolVocabulary.from_json(text)
