"""Bracketed trees, read and normalised."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from export.common.errors import InputError
from export.parsing.linear import delinearise, linearise
from export.parsing.trees import (
    one_line,
    penn_word,
    read_tree,
    read_trees,
    tags,
    words,
)
from tests.export.parsing.made_trees import DEV, TRAIN, normal_trees


@pytest.mark.parametrize(
    "text, normal",
    [
        ("( (S (NP (NN x))) )", "(TOP (S (NP (NN x))))"),
        ("(ROOT (S (NN x)))", "(TOP (S (NN x)))"),
        ("( (TOP (ROOT (S (NN x)))))", "(TOP (S (NN x)))"),
        ("(S (NN x))", "(TOP (S (NN x)))"),
        ("(NN x)", "(TOP (NN x))"),
        ("( (NN x) (S (NN y)))", "(TOP (NN x) (S (NN y)))"),
        # Only at the top, and not where something would be lost.
        ("( (TOP (NN x)) (NN y))", "(TOP (TOP (NN x)) (NN y))"),
        ("(S (TOP (NN x)))", "(TOP (S (TOP (NN x))))"),
        ("(S (NP-SBJ-1 (NN x)))", "(TOP (S (NP (NN x))))"),
        ("(S (NP=2 (NN x)))", "(TOP (S (NP (NN x))))"),
        ("(S (NP-SBJ=2 (NN x)))", "(TOP (S (NP (NN x))))"),
        ("(S (-X-1 (NN x)))", "(TOP (S (-X-1 (NN x))))"),
        ("(S (PRT|ADVP (RP x)))", "(TOP (S (PRT|ADVP (RP x))))"),
        ("(S (-LRB- -LRB-) (-RRB- ]))", "(TOP (S (-LRB- -LRB-) (-RRB- ])))"),
        ("(S (NP (-NONE- *)) (VP (VB x)))", "(TOP (S (VP (VB x))))"),
        ("(S (NP (S (-NONE- *T*-1))) (VB x))", "(TOP (S (VB x)))"),
        # What a trace leaves alone below the root.
        ("( (TOP (NN x)) (S (-NONE- 0)))", "(TOP (NN x))"),
        # White space around words, and inside one.
        ("\t(S(NN  x ) ( NN y))", "(TOP (S (NN x) (NN y)))"),
        ("(S (NN Xpd\u200aTTD\u2009))", "(TOP (S (NN XpdTTD)))"),
        (r"(S (SYM \) (NN a\/b))", r"(TOP (S (SYM \) (NN a\/b)))"),
        ("(S (NN ;) (NN 'x'))", "(TOP (S (NN ;) (NN 'x')))"),
    ],
)
def test_trees_are_normalised(text, normal):
    assert one_line(read_tree(text)) == normal


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "expected '.' but got 'end-of-string' at index 0"),
        ("(S (NN x)", "expected '.' but got 'end-of-string' at index 9"),
        ("(S (NN x)))", "expected 'end-of-string' but got '.' at index 10"),
        ("(S (NN x)) (S (NN y))", "expected 'end-of-string'"),
        ("x (S (NN x))", "expected '.' but got 'x' at index 0"),
        ("(S (NN x)) y", "expected '.' but got 'y'"),
        ("x", "expected '.' but got 'x'"),
        ("()", "the bracket . is empty"),
        ("(S (NP) (NN x))", "the bracket .NP is empty"),
        ("(S (NN \u2009))", "the bracket .NN is empty"),
        ("(S (NP (-NONE- *)))", "it has no words"),
        ("(S x (NN y))", "'x' in .S needs a bracket of its own"),
        ("(S (NN x y))", "'x' in .NN needs a bracket of its own"),
        ("(S ((NN x)))", "a bracket inside it has no label"),
        ("(S " * 10_000, "depth exceeds"),
        ("(S " * 5_000 + "x" + ")" * 5_000, "depth exceeds"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_tree(text)
    path = tmp_path / "some.ptb"
    path.write_text(f"(S (NN x))\n{text}\n", "utf-8")
    trees = read_trees(path)
    assert one_line(next(trees)) == "(TOP (S (NN x)))"
    with pytest.raises(InputError, match=f"(?s)Line 2 of .*{message}") as error:
        next(trees)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@given(normal_trees())
def test_a_line_reads_back(tree):
    line = one_line(tree)
    assert line == " ".join(tree.pformat(margin=1 << 20).split())
    assert words(tree) == tree.leaves()
    assert list(zip(words(tree), tags(tree))) == tree.pos()
    assert read_tree(line) == tree


def refused_or_reads_back(text):
    try:
        tree = read_tree(text)
    except ValueError:
        return
    assert read_tree(one_line(tree)) == tree
    assert delinearise(linearise(tree), words(tree)) == tree


@given(st.text("()SN \\-=\u2009\x1c\0") | st.text())
def test_any_text_is_refused_or_reads_back(text):
    refused_or_reads_back(text)


@given(normal_trees(), st.data())
def test_changed_brackets_are_refused_or_read_back(tree, data):
    line = one_line(tree)
    place = data.draw(st.integers(0, len(line)))
    put = data.draw(st.sampled_from(["", "(", ")", " ", "-", "\\", "(X"]))
    cut = data.draw(st.integers(0, 1))
    refused_or_reads_back(line[:place] + put + line[place + cut :])


def test_deep_trees_are_walked():
    depth = 20_000
    tree = Tree("NN", ["x"])
    for _ in range(depth):
        tree = Tree("S", [tree])
    assert words(tree) == ["x"]
    assert tags(tree) == ["NN"]
    assert one_line(tree).count("(S ") == depth


def test_brackets_in_words_are_written_as_penn_trees_do():
    tree = Tree("TOP", [Tree("NN", ["f(x)"])])
    assert one_line(tree) == "(TOP (NN f-LRB-x-RRB-))"
    assert words(read_tree(one_line(tree))) == [penn_word("f(x)")]


@pytest.mark.parametrize("word", ["", " ", "a b", "a\u2009b", "a\n"])
def test_what_is_no_word_is_not_written(word):
    with pytest.raises(ValueError, match="is no word"):
        one_line(Tree("TOP", [Tree("NN", [word])]))


@pytest.mark.parametrize("path, count", [(TRAIN, 126), (DEV, 41)])
def test_trees_of_craft(path, count, tmp_path):
    trees = list(read_trees(path))
    assert len(trees) == count
    packed = tmp_path / "same.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_trees(packed)) == trees
    for tree in trees:
        assert tree.label() == "TOP"
        for node in tree.subtrees():
            assert "=" not in node.label()
            assert "-" not in node.label().strip("-")
        # What splits at white space finds the words again.
        assert " ".join(words(tree)).split() == words(tree)
        assert "-NONE-" not in tags(tree)


def test_a_tree_of_craft_with_a_thin_space():
    tree = next(tree for tree in read_trees(TRAIN) if "XpdTTD" in words(tree))
    assert one_line(tree) == (
        "(TOP (HEADING (NP (NP (NN Rescue)) (PP (IN of) (NP (NP (ADJP (NN TTD) "
        "(HYPH -) (JJ Associated)) (JJ Segmental) (JJ Progeroid) (NNS "
        "Features)) (PP (IN in) (NP (JJ Compound) (JJ Heterozygous) (NML (NN "
        "XpdTTD) (HYPH /) (NN †XPCS)) (NNS Mice))))))))"
    )
