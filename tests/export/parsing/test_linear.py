"""Trees as lines of symbols, there and back."""

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from export.parsing.linear import (
    FIRST_ID,
    Bounds,
    Symbols,
    delinearise,
    linearise,
)
from export.parsing.trees import is_tagged_word, read_tree, read_trees, words
from keras_transformer import config
from tests.export.parsing.made_trees import DEV, TRAIN, normal_trees


@pytest.mark.parametrize(
    "tree, line",
    [
        (
            "(S (NP (DT The) (NN cell)) (VP (VBZ divides)))",
            "(S (NP DT NN )NP (VP VBZ )VP )S",
        ),
        ("( (NN cell))", "NN"),
        ("( (NN cell) (NN cell))", "(TOP NN NN )TOP"),
        ("( (S (NN a)) (. .))", "(TOP (S NN )S . )TOP"),
        ("(S (-LRB- -LRB-) (X (-RRB- ])))", "(S -LRB- (X -RRB- )X )S"),
    ],
)
def test_lines_written_by_hand(tree, line):
    tree = read_tree(tree)
    assert linearise(tree) == line.split()
    assert delinearise(line.split(), words(tree)) == tree


@given(normal_trees())
def test_there_and_back(tree):
    assert delinearise(linearise(tree), tree.leaves()) == tree


def test_there_and_back_over_craft():
    trees = [*read_trees(TRAIN), *read_trees(DEV)]
    known = Symbols.of(trees)
    for tree in trees:
        ids = known.ids(linearise(tree))
        assert delinearise(known.symbols_of(ids), words(tree)) == tree


def test_deep_trees_are_said():
    depth = 20_000
    symbols = [*["(S"] * depth, "NN", *[")S"] * depth]
    assert linearise(delinearise(symbols, ["x"])) == symbols
    assert Bounds.of(symbols) == Bounds(depth, depth, depth)


def test_a_tree_with_its_own_root_is_not_said_as_another():
    with pytest.raises(ValueError, match="root TOP"):
        linearise(Tree.fromstring("(S (NN x))"))


@pytest.mark.parametrize(
    "line, count, message",
    [
        ("", 0, "There are 0 trees"),
        ("", 1, "fewer tags than words"),
        ("(S NN )S", 0, "more tags than words"),
        ("(S NN )S", 2, "fewer tags than words"),
        ("(S NN", 1, ".S is not closed"),
        ("(S NN )NP", 1, ".NP closes no bracket of its label"),
        ("NN )S", 1, ".S closes no bracket"),
        ("(S NN )S )S", 1, ".S closes no bracket"),
        ("(S )S NN", 1, ".S is closed with nothing in it"),
        ("(S NN (NP )NP )S", 1, ".NP is closed with nothing in it"),
        ("(S NN )S (S NN )S", 2, "There are 2 trees"),
        ("NN NN", 2, "There are 2 trees"),
    ],
)
def test_what_says_no_tree_is_refused(line, count, message):
    with pytest.raises(ValueError, match=message):
        delinearise(line.split(), ["x"] * count)


def test_of_all_short_lines_those_of_trees_are_taken():
    """Each line that is taken says its tree, and no tree's line is missed."""
    alphabet = ["(A", ")A", "(B", ")B", "t"]
    taken = 0
    for length in range(7):
        for symbols in itertools.product(alphabet, repeat=length):
            for count in range(4):
                try:
                    tree = delinearise(symbols, "xyz"[:count])
                except ValueError:
                    continue
                taken += 1
                assert linearise(tree) == list(symbols)
                assert tree.leaves() == list("xyz"[:count])
    # t; in one bracket 1 to 3 words (lines of 3, 4, 5) of 2 labels, in two
    # around all of 1 or 2 (lines of 5, 6) 4 each; two words in brackets of
    # which the inner one has one or the other (lines of 6) 2 * 4.
    assert taken == 1 + 3 * 2 + 2 * 4 + 2 * 4


def test_a_root_that_is_said_needlessly_is_one_root():
    assert delinearise(["(TOP", "NN", ")TOP"], ["x"]) == read_tree("(NN x)")


def chain(node):
    """How many brackets from this one on hold just the next."""
    only = len(node) == 1 and not is_tagged_word(node[0])
    return 1 + (chain(node[0]) if only else 0)


@given(normal_trees())
def test_bounds_are_those_of_the_tree(tree):
    said = tree[0] if len(tree) == 1 else tree
    inside = [node for node in said.subtrees() if not is_tagged_word(node)]
    runs = re.findall(r"(?:\(\S+ )+", " ".join(linearise(tree)))
    assert Bounds.of(linearise(tree)) == Bounds(
        max_depth=said.height() - 2,
        max_chain=max(map(chain, inside), default=0),
        max_open=max((run.count("(") for run in runs), default=0),
    )


def test_symbols_of_trees():
    trees = map(
        read_tree, ["(S (VP (VB go) (NP (NN x))))", "(NP (X (NN y)))", "(NN x)"]
    )
    symbols = Symbols.of(trees)
    assert symbols == Symbols(
        ("NP", "S", "VP", "X"), ("NN", "VB"), Bounds(3, 2, 2)
    )
    # Padding, unknown, begin and end come first.
    assert (
        1
        + max(config.PAD_ID, config.UNKNOWN_ID, config.BEGIN_ID, config.END_ID)
        == FIRST_ID
    )
    assert symbols.vocabulary_size == 4 + 4 + 4 + 2
    line = ["(NP", "(S", "(VP", "(X", ")NP", ")S", ")VP", ")X", "NN", "VB"]
    assert symbols.ids(line) == list(range(4, 14))
    assert symbols.symbols_of(range(4, 14)) == line


@pytest.mark.parametrize(
    "symbol, message",
    [
        ("(NX", "The label 'NX' is in none of the trees"),
        (")NX", "The label 'NX'"),
        ("NP", "The tag 'NP'"),
    ],
)
def test_what_no_tree_had_is_named(symbol, message):
    symbols = Symbols.of([read_tree("(NP (NN x))")])
    with pytest.raises(ValueError, match=message):
        symbols.ids([symbol])


@pytest.mark.parametrize("id_", [-1, 0, 3, 7])
def test_what_is_no_symbol_has_no_name(id_):
    symbols = Symbols.of([read_tree("(NP (NN x))")])
    with pytest.raises(ValueError, match=f"no symbol with the id {id_}"):
        symbols.symbols_of([4, id_])


def test_symbols_are_kept_as_json():
    symbols = Symbols.of(read_trees(TRAIN))
    assert Symbols.from_json(symbols.to_json()) == symbols


@given(st.data())
def test_changed_json_is_refused(data):
    fields = {
        "labels": ["NP", "S"],
        "tags": ["NN"],
        "bounds": {"max_depth": 1, "max_chain": 1, "max_open": 1},
    }
    assert Symbols.from_json(json.dumps(fields)).tags == ("NN",)
    wrong = {
        "labels": [["S", "NP"], ["S", "S"], [""], ["N P"], ["(S"], [1], "S", 0],
        "tags": [[], ["a", "A"], [None], ["x)"], {}, ["\u2009"]],
        "bounds": [{}, [], {**fields["bounds"], "more": 1}]
        + [
            {**fields["bounds"], "max_open": bad} for bad in (-1, 1.0, True, "")
        ],
    }
    name = data.draw(st.sampled_from(sorted(wrong)))
    fields[name] = data.draw(st.sampled_from(wrong[name]))
    with pytest.raises(ValueError):
        Symbols.from_json(json.dumps(fields))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"labels": []}', "null"])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError):
        Symbols.from_json(text)


def test_there_are_no_symbols_without_trees():
    with pytest.raises(ValueError, match="a tag at least"):
        Symbols.of([])
