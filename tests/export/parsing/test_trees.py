"""Bracketed trees, read and normalized."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from export.common.errors import InputError
from export.parsing.linearization import delinearize, linearize
from export.parsing.trees import (
    add_root,
    format_tree,
    read_tree,
    read_trees,
    tree_words,
)
from tests.export.parsing.made_trees import normal_trees


@pytest.mark.parametrize(
    "text, normal",
    [
        ("( (S (NP (NN x))) )", "(TOP (S (NP (NN x))))"),
        ("( (TOP (ROOT (S (NN x)))))", "(TOP (S (NN x)))"),
        ("(S (NN x))", "(TOP (S (NN x)))"),
        ("(NN x)", "(TOP (NN x))"),
        ("( (NN x) (S (NN y)))", "(TOP (NN x) (S (NN y)))"),
        # Only at the top, and not where something would be lost.
        ("( (TOP (NN x)) (NN y))", "(TOP (TOP (NN x)) (NN y))"),
        ("(S (TOP (NN x)))", "(TOP (S (TOP (NN x))))"),
        ("(S (NP-SBJ=2 (NN x)))", "(TOP (S (NP (NN x))))"),
        ("(S (-X-1 (NN x)))", "(TOP (S (-X-1 (NN x))))"),
        ("(S (-LRB- -LRB-) (-RRB- ]))", "(TOP (S (-LRB- -LRB-) (-RRB- ])))"),
        ("(S (NP (S (-NONE- *T*-1))) (VB x))", "(TOP (S (VB x)))"),
        # What a trace leaves alone below the root.
        ("( (TOP (NN x)) (S (-NONE- 0)))", "(TOP (NN x))"),
        # White space around words, and inside one.
        ("\t(S(NN  x ) ( NN y))", "(TOP (S (NN x) (NN y)))"),
        ("(S (NN Xpd\u200aTTD\u2009))", "(TOP (S (NN XpdTTD)))"),
        (r"(S (SYM \) (NN a\/b))", r"(TOP (S (SYM \) (NN a\/b)))"),
    ],
)
def test_trees_are_normalized(text, normal):
    assert format_tree(read_tree(text)) == normal


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "got 'end-of-string' at index 0"),
        ("(S (NN x)))", "at index 10"),
        ("(S (NN x)) (S (NN y))", "expected 'end-of-string'"),
        ("()", "bracket"),
        ("(S (NP) (NN x))", "NP"),
        ("(S (NN \u2009))", "NN"),
        ("(S (NP (-NONE- *)))", "no words"),
        ("(S x (NN y))", "'x' in .S"),
        ("(S (NN x y))", "'x' in .NN"),
        ("(S ((NN x)))", "no label"),
        ("(S " * 5_000 + "x" + ")" * 5_000, "depth"),
    ],
)
def test_a_line_that_is_no_tree_is_refused(text, reason, tmp_path):
    path = tmp_path / "some.ptb"
    path.write_text(f"(S (NN x))\n{text}\n", "utf-8")
    trees = read_trees(path)
    assert format_tree(next(trees)) == "(TOP (S (NN x)))"
    with pytest.raises(InputError, match=f"Line 2 of {path}.*{reason}"):
        next(trees)


@settings(max_examples=40)
@given(normal_trees())
def test_a_line_reads_back(tree):
    line = format_tree(tree)
    assert line == " ".join(tree.pformat(margin=1 << 20).split())
    assert tree_words(tree) == tree.leaves()
    assert read_tree(line) == tree


@st.composite
def changed_lines(draw):
    line = format_tree(draw(normal_trees()))
    position = draw(st.integers(0, len(line)))
    added = draw(st.sampled_from(["", "(", ")", " ", "-", "\\", "(X"]))
    removed = draw(st.integers(0, 1))
    return line[:position] + added + line[position + removed :]


@settings(max_examples=50)
@given(st.text("()SN \\-=\u2009\x1c\0") | changed_lines())
def test_any_text_is_refused_or_reads_back(text):
    try:
        tree = read_tree(text)
    except ValueError:
        return
    assert read_tree(format_tree(tree)) == tree
    assert delinearize(linearize(tree), tree_words(tree)) == tree


def test_deep_trees_need_no_recursion():
    depth = 20_000
    tree = Tree("NN", ["x"])
    for _ in range(depth):
        tree = Tree("S", [tree])
    assert tree_words(tree) == ["x"]
    assert format_tree(tree).count("(S ") == depth
    tree = add_root(tree)
    assert linearize(delinearize(linearize(tree), ["x"])) == linearize(tree)


def test_brackets_in_words_are_escaped():
    tree = Tree("TOP", [Tree("NN", ["f(x)"])])
    assert format_tree(tree) == "(TOP (NN f-LRB-x-RRB-))"
    for word in ("", " ", "a b", "a\u2009b", "a\n"):
        with pytest.raises(ValueError):
            format_tree(Tree("TOP", [Tree("NN", [word])]))
