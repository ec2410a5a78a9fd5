"""Writes trees as lines of text inside a TensorFlow graph.

A served model has neither nltk nor Python. The text equals `delinearize` of
export.parsing.linearization followed by `format_tree` of export.parsing.trees.
"""

import numpy as np
import tensorflow as tf

from export.parsing.linearization import FIRST_SYMBOL_ID
from export.parsing.trees import ROOT, ROOTS


class TreeWriter:
    """Writes trees from ids of a SymbolVocabulary and from words."""

    def __init__(self, symbols):
        self._first_tag_id = symbols.first_tag_id
        labels, tags = symbols.labels, symbols.tags
        counts = [FIRST_SYMBOL_ID, len(labels), len(labels), len(tags)]
        # For each id: its text, its change to the number of open brackets, and
        # whether it opens a bracket with a label of ROOTS.
        self._texts = np.array(
            [
                *[""] * FIRST_SYMBOL_ID,
                *[f" ({label}" for label in labels],
                *[")" for _ in labels],
                *[f" ({tag} " for tag in tags],
            ]
        )
        self._opens = np.repeat(np.array([0, 1, -1, 0], np.int32), counts)
        self._is_root = np.zeros(len(self._texts), bool)
        for number, label in enumerate(labels, FIRST_SYMBOL_ID):
            self._is_root[number] = label in ROOTS

    def write(self, tokens, words):
        """Returns trees as lines of text, string [B, K].

        Text of rows without a tree is undefined.

        Args:
            tokens: int32 [B, K, T], symbols that TreeGrammar allows, the end
                id, then padding.
            words: RaggedTensor string [B, None] of `WordTokenizer.split_words`.
        """
        is_tag = tokens >= self._first_tag_id
        position = tf.cumsum(tf.cast(is_tag, tf.int32), axis=-1) - 1
        # Sentences without words need one word to gather.
        blank = tf.fill([words.nrows(), 1], "")
        words = tf.concat([words, blank], axis=1).to_tensor()
        word = tf.gather(words, tf.maximum(position, 0), batch_dims=1)
        text = tf.gather(self._texts, tokens)
        text = tf.where(is_tag, tf.strings.join([text, word, ")"]), text)
        text = tf.where(self._is_of_root(tokens), "", text)
        inner = tf.strings.reduce_join(text, axis=-1)
        return tf.strings.join([f"({ROOT}", inner, ")"])

    def _is_of_root(self, tokens):
        """Returns which symbols belong to roots, boolean [B, K, T].

        They are skipped, because one TOP is written around everything. Their
        opening brackets are the leading symbols that have a label of ROOTS and
        stay open until the last word.
        """
        opens = tf.gather(self._opens, tokens)
        depth = tf.cumsum(opens, axis=-1)
        is_root = tf.gather(self._is_root, tokens)
        begun = tf.cumsum(tf.cast(~is_root, tf.int32), axis=-1) > 0
        continues = (opens > 0) | (tokens >= self._first_tag_id)
        continues = tf.cumsum(
            tf.cast(continues, tf.int32), axis=-1, reverse=True
        )
        between = tf.where(begun & (continues > 0), depth, tf.int32.max)
        leading = tf.reduce_sum(tf.cast(~begun, tf.int32), axis=-1)
        roots = tf.minimum(leading, tf.reduce_min(between, axis=-1))
        roots = roots[..., None]
        is_symbol = tokens >= FIRST_SYMBOL_ID
        length = tf.reduce_sum(tf.cast(is_symbol, tf.int32), axis=-1)
        positions = tf.range(tf.shape(tokens)[-1])
        is_last = is_symbol & (positions >= length[..., None] - roots)
        return (positions < roots) | is_last
