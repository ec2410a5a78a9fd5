"""Trees as lines of text, written inside a TensorFlow graph.

What a server needs: a SavedModel has neither nltk nor Python. The text is that
of `delinearise` in export.parsing.linear and `one_line` in
export.parsing.trees.

Letters: B sentences, K trees of each, T symbols, the end id one of them.
"""

import numpy as np
import tensorflow as tf

from export.parsing.linear import FIRST_ID
from export.parsing.trees import ROOT, ROOTS


class TreeWriter:
    """Writes trees from the ids of their symbols and from their words.

    Args:
        symbols: export.parsing.linear.Symbols.
    """

    def __init__(self, symbols):
        self._tags_from = symbols.tags_from
        labels, tags = symbols.labels, symbols.tags
        counts = [FIRST_ID, len(labels), len(labels), len(tags)]
        # Of each id: its text, brackets that it opens, whether it opens one
        # that is a root where nothing else is around it.
        self._texts = np.array(
            [
                *[""] * FIRST_ID,
                *[f" ({label}" for label in labels],
                *[")" for _ in labels],
                *[f" ({tag} " for tag in tags],
            ]
        )
        self._opens = np.repeat(np.array([0, 1, -1, 0], np.int32), counts)
        self._is_root = np.zeros(len(self._texts), bool)
        for number, label in enumerate(labels, FIRST_ID):
            self._is_root[number] = label in ROOTS

    def write(self, tokens, words):
        """Writes trees, each on one line.

        Args:
            tokens: int32 [B, K, T], symbols as a search that is held to
                TreeGrammar finds them: the end id follows, then padding.
            words: RaggedTensor string [B, None], as `WordTokenizer.words`
                returns them.

        Returns:
            string [B, K]. Of a row that is no tree over its words the text
            means nothing.
        """
        is_tag = tokens >= self._tags_from
        place = tf.cumsum(tf.cast(is_tag, tf.int32), axis=-1) - 1
        # One more, so that there is one where nothing is asked for.
        nothing = tf.fill([words.nrows(), 1], "")
        words = tf.concat([words, nothing], axis=1).to_tensor()
        word = tf.gather(words, tf.maximum(place, 0), batch_dims=1)
        text = tf.gather(self._texts, tokens)
        text = tf.where(is_tag, tf.strings.join([text, word, ")"]), text)
        text = tf.where(self._is_of_root(tokens), "", text)
        inner = tf.strings.reduce_join(text, axis=-1)
        return tf.strings.join([f"({ROOT}", inner, ")"])

    def _is_of_root(self, tokens):
        """Returns which symbols are the root's, boolean [B, K, T].

        The root stands once: what is said of it, however often, is left out
        where TOP is written around everything. These are brackets at the
        beginning, as many as stay open up to the last word.
        """
        opens = tf.gather(self._opens, tokens)
        depth = tf.cumsum(opens, axis=-1)
        is_root = tf.gather(self._is_root, tokens)
        begun = tf.cumsum(tf.cast(~is_root, tf.int32), axis=-1) > 0
        goes_on = (opens > 0) | (tokens >= self._tags_from)
        goes_on = tf.cumsum(tf.cast(goes_on, tf.int32), axis=-1, reverse=True)
        between = tf.where(begun & (goes_on > 0), depth, tf.int32.max)
        # Those that are open from the beginning on to the last word.
        most = tf.reduce_sum(tf.cast(~begun, tf.int32), axis=-1)
        roots = tf.minimum(most, tf.reduce_min(between, axis=-1))[..., None]
        is_symbol = tokens >= FIRST_ID
        length = tf.reduce_sum(tf.cast(is_symbol, tf.int32), axis=-1)
        places = tf.range(tf.shape(tokens)[-1])
        is_last = is_symbol & (places >= length[..., None] - roots)
        return (places < roots) | is_last
