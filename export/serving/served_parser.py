"""The parser as a graph for TensorFlow Serving."""

import functools

import tensorflow as tf

from export.parsing.tree_writer import TreeWriter
from export.translators.text_ids import character_limit, truncation_limit
from export.translators.text_translator import IMPOSSIBLE
from keras_transformer.config import END_ID

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_IDS = tf.TensorSpec([None, None], tf.int32)
_COUNTS = tf.TensorSpec([None], tf.int32)

# About 600 words; sentences of treebanks have fewer than 200.
MAX_SOURCE_TOKENS = 1024


class ServedParser(tf.Module):
    """Parses sentences into bracketed trees inside one graph.

    As in ServedTranslator, the Keras model itself is not an attribute. A tree
    covers all words of its sentence, so sentences are never truncated: one over
    the limit makes its request fail. Text without words gives empty text. No
    answer depends on the rest of its batch. K is the beam size.

    Args:
        parser: export.parsing.parser.Parser.
        max_source_tokens: maximum number of tokens of a sentence, the end id
            included, since the memory for attention grows with their square.
            `character_limit` limits their characters.
    """

    task = "parsing"
    target_pieces = None

    def __init__(self, parser, max_source_tokens=MAX_SOURCE_TOKENS):
        super().__init__(name="served_parser")
        config = parser.model.config
        self.parameters = parser.model.count_params()
        self.model_variables = [
            variable.value for variable in parser.model.weights
        ]
        self.tokenizer = parser.tokenizer.subwords
        self._words = parser.tokenizer
        self._writer = TreeWriter(parser.symbols)
        self._beam_size = parser.beam_size
        self._limits = {
            "beam_size": parser.beam_size,
            "alpha": parser.search_config.alpha,
            "max_source_tokens": truncation_limit(config, max_source_tokens),
        }
        self._best, self._all = (
            tf.function(
                functools.partial(parser.search, n_best=n_best),
                input_signature=[_IDS, _COUNTS],
                autograph=False,
            )
            for n_best in (1, parser.beam_size)
        )

    def limits(self):
        """Returns the settings and limits of the search, a dict."""
        return dict(self._limits)

    def signatures(self):
        """Returns the signatures: dict, name to tf.function."""
        return {"serving_default": self.parse, "n_best": self.n_best}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def parse(self, text):
        """The signature `serving_default`.

        Args:
            text: string [B], one sentence each, with white space between words
                and punctuation as in the Penn Treebank.

        Returns:
            `tree`, string [B], as from `export.parsing.trees.format_tree`;
            `score`, float32 [B]: log-probability / length penalty, 0 for text
            without words.
        """
        trees, scores = self._answer(text, self._best, 1)
        return {"tree": trees[:, 0], "score": scores[:, 0]}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def n_best(self, text):
        """The signature `n_best`.

        Returns:
            `trees`, string [B, K], and `scores`, float32 [B, K], best first.
            Missing ones are "" and -1e9. Text without words has one result.
        """
        trees, scores = self._answer(text, self._all, self._beam_size)
        return {"trees": trees, "scores": scores}

    def _answer(self, text, search, count):
        words, ids = self._read(text)
        counts = tf.cast(words.row_lengths(), tf.int32)
        # Text without words is searched like one word; its result is discarded.
        tokens, scores = search(ids, tf.maximum(counts, 1))
        tokens, scores = tokens[:, :count], scores[:, :count]
        has_words = counts[:, None] > 0
        is_tree = has_words & tf.reduce_any(tokens == END_ID, axis=-1)
        trees = tf.where(is_tree, self._writer.write(tokens, words), "")
        blank = tf.constant([[0.0] + [IMPOSSIBLE] * (count - 1)])
        without = tf.where(has_words, IMPOSSIBLE, blank)
        shape = [tf.shape(ids)[0], count]
        return (
            tf.reshape(trees, shape),
            tf.reshape(tf.where(is_tree, scores, without), shape),
        )

    def _read(self, text):
        """Returns words, ragged string [B, None], and ids, int32 [B, S]."""
        limit = self._limits["max_source_tokens"]
        lengths = tf.strings.length(
            self.tokenizer.clean_text(text), unit="UTF8_CHAR"
        )
        text = self._require(text, lengths <= character_limit(limit))
        words = self._words.split_words(text)
        ids = self._words.encode_words(words)
        # The smallest tree has a pair of brackets around the words, and an end.
        lengths = tf.maximum(ids.row_lengths(), words.row_lengths() + 3)
        return words, self._require(ids.to_tensor(), lengths <= limit)

    def _require(self, value, fits):
        """Returns the value, or fails if a sentence is too long."""
        limit = self._limits["max_source_tokens"]
        message = (
            f"Expected sentences of at most {limit} tokens and "
            f"{character_limit(limit)} characters: divide longer ones, or "
            "export the model with a higher --max_source_tokens. Too long, by "
            "their position in the request, from 0:"
        )
        too_long = tf.where(~fits)[:, 0]
        checked = tf.debugging.Assert(tf.reduce_all(fits), [message, too_long])
        with tf.control_dependencies([checked]):
            return tf.identity(value)
