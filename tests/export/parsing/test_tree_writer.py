"""Trees written in a graph equal those that nltk writes."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from export.parsing.linearization import (
    SymbolVocabulary,
    delinearize,
    linearize,
)
from export.parsing.trees import ROOT, format_tree, tree_words
from export.serving.served_parser import TreeWriter
from tests.export.parsing import made_trees

LABELS = [*made_trees.LABELS, "ROOT", ROOT, "α"]
TAGS = [*made_trees.TAGS, "TOP"]
SYMBOLS = SymbolVocabulary(tuple(sorted(LABELS)), tuple(sorted(TAGS)), 0, 0)
END = 3

write = tf.function(
    TreeWriter(SYMBOLS).write,
    input_signature=[
        tf.TensorSpec([None, None, None], tf.int32),
        tf.RaggedTensorSpec([None, None], tf.string),
    ],
)


def padded(lines, shape):
    tokens = np.zeros(shape, np.int32)
    for row, line in zip(tokens.reshape(-1, shape[-1]), lines):
        ids = [*SYMBOLS.encode(line), END]
        row[: len(ids)] = ids
    return tokens


@settings(max_examples=25)
@given(
    st.lists(
        # Roots often, because they are removed.
        made_trees.brackets([*LABELS, ROOT, ROOT, "ROOT"], TAGS, max_leaves=8),
        min_size=1,
        max_size=6,
    )
)
def test_the_text_is_that_of_one_line(trees):
    """For all trees that a search with the grammar can find."""
    lines = [linearize(Tree(ROOT, [tree])) for tree in trees]
    words = [tree_words(tree) for tree in trees]
    expected = [format_tree(delinearize(*pair)) for pair in zip(lines, words)]
    shape = len(lines), 1, max(map(len, lines)) + 3
    found = write(padded(lines, shape), tf.ragged.constant(words))
    assert [text.decode() for text in found.numpy()[:, 0]] == expected
