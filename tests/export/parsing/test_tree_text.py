"""Trees written in a graph are those that nltk writes."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from export.parsing.linear import Bounds, Symbols, delinearise, linearise
from export.parsing.tree_text import TreeWriter
from export.parsing.trees import ROOT, one_line
from export.parsing.trees import words as words_of
from tests.export.parsing import made_trees

LABELS = [*made_trees.LABELS, "ROOT", ROOT, "α"]
TAGS = [*made_trees.TAGS, "TOP"]
SYMBOLS = Symbols(tuple(sorted(LABELS)), tuple(sorted(TAGS)), Bounds())
END = 3


def tagged_words():
    return st.builds(
        lambda tag, word: Tree(tag, [word]),
        st.sampled_from(TAGS),
        st.sampled_from(made_trees.WORDS),
    )


def brackets():
    # Roots often, for these are where the forms differ.
    labels = st.sampled_from([*LABELS, ROOT, ROOT, "ROOT"])
    return st.recursive(
        tagged_words(),
        lambda inner: st.builds(Tree, labels, st.lists(inner, min_size=1)),
        max_leaves=8,
    )


write = tf.function(
    TreeWriter(SYMBOLS).write,
    input_signature=[
        tf.TensorSpec([None, None, None], tf.int32),
        tf.RaggedTensorSpec([None, None], tf.string),
    ],
)


def padded(rows, shape):
    tokens = np.zeros(shape, np.int32)
    for place, row in zip(np.ndindex(*shape[:-1]), rows):
        tokens[place][: len(row)] = row
    return tokens


@settings(max_examples=100)
@given(st.lists(brackets(), min_size=1, max_size=6))
def test_the_text_is_that_of_one_line(trees):
    """Whatever a search that is held to the grammar can say."""
    said = [linearise(Tree(ROOT, [tree])) for tree in trees]
    words = [words_of(tree) for tree in trees]
    expected = [one_line(delinearise(*pair)) for pair in zip(said, words)]
    rows = [[*SYMBOLS.ids(each), END] for each in said]
    shape = len(rows), 1, max(map(len, rows)) + 2
    found = write(padded(rows, shape), tf.ragged.constant(words))
    assert [text.decode() for text in found.numpy()[:, 0]] == expected


def test_several_trees_of_a_sentence_have_its_words():
    said = [
        ["(NP", "NN", "DT", ")NP"],
        ["(TOP", "(S", "NN", ")S", "DT", ")TOP"],
    ]
    rows = [[*SYMBOLS.ids(each), END] for each in said]
    words = tf.ragged.constant([["a", "b"], []], dtype=tf.string)
    tokens = padded([*rows, [], []], (2, 2, 8))
    found = write(tokens, words).numpy()
    assert found[0].tolist() == [
        b"(TOP (NP (NN a) (DT b)))",
        b"(TOP (S (NN a)) (DT b))",
    ]
    nothing = tf.ragged.constant([], ragged_rank=1, dtype=tf.string)
    empty = write(np.zeros((0, 2, 0), np.int32), nothing)
    assert empty.shape == (0, 2)
