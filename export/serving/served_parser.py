"""A parser, from text to bracketed trees, as graphs for TensorFlow Serving."""

import functools
import os
import typing
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from export.parsing.linearization import FIRST_SYMBOL_ID, SymbolVocabulary
from export.parsing.parser import Parser
from export.parsing.trees import ROOT, ROOT_LABELS, UNICODE_SPACE
from export.translators.batches import character_limit, truncation_limit
from export.translators.languages import Languages
from export.translators.translation import IMPOSSIBLE_SCORE
from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.types import Tensor

if typing.TYPE_CHECKING:
    from export.parsing.word_tokenizer import WordTokenizer

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_IDS = tf.TensorSpec([None, None], tf.int32)
_COUNTS = tf.TensorSpec([None], tf.int32)

# About 600 words; sentences of treebanks have fewer than 200.
MAX_SOURCE_TOKENS = 1024


class ServedParser(tf.Module):
    """Parses sentences into bracketed trees inside one graph.

    As in ServedTranslator, the Keras model itself is not an attribute. A tree
    covers all words of its sentence, so sentences are never truncated: one
    above `max_source_tokens` tokens, the end id included, or above
    `character_limit` makes its request fail. Text without words gives empty
    text. No output depends on the rest of its batch. K is the beam size.
    """

    task = "parsing"
    target_pieces = None
    languages = Languages()

    def __init__(
        self, parser: Parser, max_source_tokens: int = MAX_SOURCE_TOKENS
    ):
        super().__init__(name="served_parser")
        config = parser.model.config
        self.parameters = parser.model.count_params()  # type: ignore[union-attr]
        self.model_variables = [
            variable.value for variable in parser.model.weights
        ]
        self.tokenizer = parser.tokenizer.subwords
        self._word_tokenizer = GraphWordTokenizer(parser.tokenizer)
        self._tree_writer = TreeWriter(parser.symbols)
        self._beam_size = parser.beam_size
        self._limits = {
            "beam_size": parser.beam_size,
            "alpha": parser.search_config.alpha,
            "max_source_tokens": truncation_limit(config, max_source_tokens),
        }
        self._search_best, self._search_n_best = (
            tf.function(
                functools.partial(parser.search, n_best=n_best),
                input_signature=[_IDS, _COUNTS],
                autograph=False,
            )
            for n_best in (1, parser.beam_size)
        )

    @classmethod
    def from_directory(
        cls,
        path: str | os.PathLike,
        max_source_tokens: int = MAX_SOURCE_TOKENS,
        **search: typing.Any,
    ) -> typing.Self:
        """Loads a model directory; `search` are settings of Parser."""
        return cls(Parser.from_directory(path, **search), max_source_tokens)

    def limits(self) -> dict[str, typing.Any]:
        """Returns the settings and limits of the search."""
        return dict(self._limits)

    def signatures(self) -> dict[str, Callable[..., dict[str, Tensor]]]:
        """Returns the signatures: dict, name to tf.function."""
        return {"serving_default": self.parse, "n_best": self.n_best}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def parse(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `serving_default`; text without words scores 0."""
        trees, scores = self._parse(text, self._search_best, 1)
        return {"tree": trees[:, 0], "score": scores[:, 0]}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def n_best(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `n_best`; missing trees are "" and -1e9."""
        trees, scores = self._parse(text, self._search_n_best, self._beam_size)
        return {"trees": trees, "scores": scores}

    def _parse(self, text, search, n):
        """Returns trees, string [B, n], and scores, float32 [B, n]."""
        words, ids = self._tokenize(text)
        word_counts = tf.cast(words.row_lengths(), tf.int32)
        # Text without words is searched like one word; its result is discarded.
        tokens, scores = search(ids, tf.maximum(word_counts, 1))
        tokens, scores = tokens[:, :n], scores[:, :n]
        has_words = word_counts[:, None] > 0
        is_tree = has_words & tf.reduce_any(tokens == END_ID, axis=-1)
        trees = tf.where(is_tree, self._tree_writer.write(tokens, words), "")
        blank_scores = tf.constant([0.0] + [IMPOSSIBLE_SCORE] * (n - 1))
        other_scores = tf.where(has_words, IMPOSSIBLE_SCORE, blank_scores)
        scores = tf.where(is_tree, scores, other_scores)
        shape = [tf.shape(ids)[0], n]
        return tf.reshape(trees, shape), tf.reshape(scores, shape)

    def _tokenize(self, text):
        """Returns words, ragged string [B, None], and ids, int32 [B, S]."""
        limit = self._limits["max_source_tokens"]
        lengths = tf.strings.length(
            self.tokenizer.clean_text(text), unit="UTF8_CHAR"
        )
        text = self._fail_if_too_long(text, lengths > character_limit(limit))
        words = self._word_tokenizer.split(text)
        ids = self._word_tokenizer.encode(words)
        # The smallest tree has a pair of brackets around the words, and an end.
        lengths = tf.maximum(ids.row_lengths(), words.row_lengths() + 3)
        return words, self._fail_if_too_long(ids.to_tensor(), lengths > limit)

    def _fail_if_too_long(self, value, too_long):
        """Returns the value, or fails if a sentence is too long."""
        limit = self._limits["max_source_tokens"]
        message = (
            f"Expected sentences of at most {limit} tokens and "
            f"{character_limit(limit)} characters: divide longer ones, or "
            "export the model with a higher --max_source_tokens. Too long, by "
            "their position in the request, from 0:"
        )
        assertion = tf.debugging.Assert(
            ~tf.reduce_any(too_long), [message, tf.where(too_long)[:, 0]]
        )
        with tf.control_dependencies([assertion]):
            return tf.identity(value)


class GraphWordTokenizer:
    """Splits and tokenizes words in a graph, like a WordTokenizer."""

    def __init__(self, tokenizer: "WordTokenizer"):
        self._tokenizer = tokenizer

    def split(self, text: Tensor) -> tf.RaggedTensor:
        """Splits text, string [B], like `split_at_spaces`.

        Returns a RaggedTensor string [B, None].
        """
        text = self._tokenizer.subwords.clean_text(text)
        # As `remove_unicode_spaces` and `escape_brackets`.
        text = tf.strings.regex_replace(text, UNICODE_SPACE, "")
        text = tf.strings.regex_replace(text, r"\(", "-LRB-")
        text = tf.strings.regex_replace(text, r"\)", "-RRB-")
        return tf.strings.split(text)

    def encode(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Tokenizes words, a RaggedTensor string [B, None], to ids.

        Returns a RaggedTensor int32 [B, None]; each row ends with the end id.
        """
        tokenizer = self._tokenizer
        # Of W words, ragged [W, None], without the end id of each.
        pieces = tokenizer.subwords.tokenize(words.values)[:, :-1]
        lengths = pieces.row_lengths()
        is_first = tf.ragged.range(lengths).values == 0
        first = tf.gather(tokenizer.first_ids, pieces.values)
        later = tf.gather(tokenizer.later_ids, pieces.values)
        ids = pieces.with_values(tf.where(is_first, first, later))
        # One space for a word without pieces, none for the rest: [W, None].
        num_spaces = tf.cast(lengths == 0, tf.int64)
        space_id = tokenizer.first_ids[PAD_ID]
        spaces = tf.fill([tf.reduce_sum(num_spaces)], space_id)
        spaces = tf.RaggedTensor.from_row_lengths(spaces, num_spaces)
        word_ids = tf.concat([ids, spaces], axis=1)
        sentence_ids = words.with_values(word_ids).merge_dims(1, 2)
        end = tf.fill([words.nrows(), 1], END_ID)
        return tf.concat([sentence_ids, end], axis=1)


class TreeWriter:
    """Writes trees from ids of a SymbolVocabulary and from words."""

    def __init__(self, symbols: SymbolVocabulary):
        self._first_tag_id = symbols.first_tag_id
        labels, tags = symbols.labels, symbols.tags
        counts = [FIRST_SYMBOL_ID, len(labels), len(labels), len(tags)]
        # For each id: its text, its change to the number of open brackets, and
        # whether it opens a bracket with a label of ROOT_LABELS.
        self._texts = np.array(
            [
                *[""] * FIRST_SYMBOL_ID,
                *[f" ({label}" for label in labels],
                *[")" for _ in labels],
                *[f" ({tag} " for tag in tags],
            ]
        )
        self._depth_changes = np.repeat(
            np.array([0, 1, -1, 0], np.int32), counts
        )
        self._is_root = np.zeros(len(self._texts), bool)
        for symbol_id, label in enumerate(labels, FIRST_SYMBOL_ID):
            self._is_root[symbol_id] = label in ROOT_LABELS

    def write(self, tokens: Tensor, words: tf.RaggedTensor) -> Tensor:
        """Returns trees as lines of text, string [B, K].

        `tokens`, int32 [B, K, T], are symbols that TreeGrammar allows, the end
        id, then padding; `words` are from `GraphWordTokenizer.split`. Rows
        without a tree have undefined text.
        """
        is_tag = tokens >= self._first_tag_id
        word_index = tf.cumsum(tf.cast(is_tag, tf.int32), axis=-1) - 1
        # Sentences without words need one word to gather.
        blank = tf.fill([words.nrows(), 1], "")
        words = tf.concat([words, blank], axis=1).to_tensor()
        word = tf.gather(words, tf.maximum(word_index, 0), batch_dims=1)
        text = tf.gather(self._texts, tokens)
        text = tf.where(is_tag, tf.strings.join([text, word, ")"]), text)
        text = tf.where(self._root_brackets(tokens), "", text)
        inner = tf.strings.reduce_join(text, axis=-1)
        return tf.strings.join([f"({ROOT}", inner, ")"])

    def _root_brackets(self, tokens):
        """Returns which symbols are brackets of roots, boolean [B, K, T].

        `write` adds one ROOT itself, so a tree's own roots are dropped: the
        leading brackets with a label of ROOT_LABELS that close only after the
        last word, and their closing brackets.
        """
        depth_change = tf.gather(self._depth_changes, tokens)
        depth = tf.cumsum(depth_change, axis=-1)
        is_root = tf.gather(self._is_root, tokens)
        after_roots = tf.cumsum(tf.cast(~is_root, tf.int32), axis=-1) > 0
        opens_or_tags = (depth_change > 0) | (tokens >= self._first_tag_id)
        num_later = tf.cumsum(
            tf.cast(opens_or_tags, tf.int32), axis=-1, reverse=True
        )
        # Down to this depth brackets close before the last word.
        inner_depth = tf.where(
            after_roots & (num_later > 0), depth, tf.int32.max
        )
        num_leading = tf.reduce_sum(tf.cast(~after_roots, tf.int32), axis=-1)
        num_roots = tf.minimum(num_leading, tf.reduce_min(inner_depth, axis=-1))
        num_roots = num_roots[..., None]
        is_symbol = tokens >= FIRST_SYMBOL_ID
        length = tf.reduce_sum(tf.cast(is_symbol, tf.int32), axis=-1)
        positions = tf.range(tf.shape(tokens)[-1])
        is_last = is_symbol & (positions >= length[..., None] - num_roots)
        return (positions < num_roots) | is_last
