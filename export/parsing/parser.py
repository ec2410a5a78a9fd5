"""A trained parser: sentences of words in, trees out."""

import dataclasses
import functools
import typing

import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.parsing.linear import Symbols, delinearise
from export.parsing.trees import one_line, penn_word
from export.parsing.words import WordTokenizer
from export.translators.batches import BATCH_TOKENS, translate_in_batches
from export.translators.graph_translator import InPlaceKVCache
from export.translators.text_ids import list_of_texts, pad_ids
from export.translators.translator import load_ensemble, validate_equal
from keras_transformer.config import END_ID

# Ids that a sentence may have: several times the longest one of any treebank.
# Attention takes their square.
MOST_IDS = 2048
# Brackets that a tree may have for each of its words: far more than any.
_SYMBOLS_A_WORD = 8
_IDS = tf.TensorSpec([None, None], tf.int32)
_COUNTS = tf.TensorSpec([None], tf.int32)


class Parse(typing.NamedTuple):
    """A tree over exactly the words of a sentence.

    Attributes:
        tree: nltk.Tree; None of a sentence without words.
        score: log-probability / length penalty.
        source_truncated: False: a sentence is parsed whole.
    """

    tree: typing.Any
    score: float
    source_truncated: bool = False

    @property
    def text(self):
        """The tree as one bracketed line; "" without words."""
        return "" if self.tree is None else one_line(self.tree)


def symbols_of(directory):
    """Returns the Symbols of a parser's ModelDirectory.

    Raises:
        InputError: it is of no parser, or they are damaged.
    """
    text = directory.read_symbols()
    try:
        return Symbols.from_json(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{directory.symbols_path} cannot be used: {error}"
        ) from error


class Parser:
    """Finds the trees with the highest penalised log-probability.

    The search says nothing but trees over the sentence's words (see
    `kt.TreeGrammar`); brackets are nested and opened in a row no deeper than
    in the trees that the model was trained on.

    Args:
        model: Transformer, or kt.Ensemble of several.
        tokenizer: WordTokenizer.
        symbols: export.parsing.linear.Symbols.
        beam_size: K; None for the model's own.
        alpha: exponent of the length penalty; None for the model's own.
        batch_tokens: source positions in a batch, padding counted.

    Attributes:
        beam_size: K.
        model: as given.
        rules: SearchRules, of the best tree alone.
        symbols: as given.
        tokenizer: as given.

    Raises:
        ValueError: the sizes of model and vocabularies differ.
    """

    def __init__(
        self,
        model,
        tokenizer,
        symbols,
        beam_size=None,
        alpha=None,
        batch_tokens=BATCH_TOKENS,
    ):
        config = model.config
        sizes = config.source_pieces, config.vocabulary_size
        there = tokenizer.vocabulary_size, symbols.vocabulary_size
        if sizes != there:
            raise ValueError(
                f"The model has vocabularies of {sizes} ids, not of {there}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.symbols = symbols
        self._batch_tokens = batch_tokens
        self._extra = config.max_output_extra
        self._most_ids = MOST_IDS
        if config.positions == "learned":
            self._most_ids = min(MOST_IDS, config.max_positions)
        self._grammar = kt.TreeGrammar(
            len(symbols.labels),
            len(symbols.tags),
            max(symbols.bounds.max_depth, 1),
            max(symbols.bounds.max_open, 1),
        )
        rules = kt.search_rules(config)
        self.beam_size = beam_size or rules.beam_size
        self.rules = dataclasses.replace(
            rules,
            beam_size=self.beam_size,
            alpha=rules.alpha if alpha is None else alpha,
            grammar=self._grammar,
        )
        self._graphs = {}

    @classmethod
    def from_directory(cls, *paths, ensemble_mean=None, **settings):
        """Opens model directories of trainers.parsing.

        Args:
            *paths: of the folder, or of several whose models decode together.
            ensemble_mean: `mean` of kt.Ensemble; None for its default.
            **settings: of the class.

        Raises:
            InputError: one is none, or not whole; they do not go together.
        """
        directories = [ModelDirectory(path) for path in paths]
        symbols = [symbols_of(directory) for directory in directories]
        validate_equal(paths, symbols, "symbols of trees")
        protos = [directory.read_vocabulary() for directory in directories]
        validate_equal(paths, protos, "vocabularies")
        model = load_ensemble(directories, ensemble_mean)
        try:
            tokenizer = WordTokenizer(protos[0])
            return cls(model, tokenizer, symbols[0], **settings)
        except ValueError as error:
            raise InputError(f"{paths[0]} cannot be used: {error}") from error

    def parse(self, sentences, n_best=1, on_progress=None):
        """Parses sentences.

        Args:
            sentences: list of str, words separated by white space.
            n_best: how many trees of each are wanted, at most `beam_size`.
            on_progress: function of the number of sentences just done.

        Returns:
            A list of lists of Parse, best first; of a sentence without words
            one without a tree.

        Raises:
            InputError: a sentence has more than `MOST_IDS` ids, or than there
                are learned positions for its words or for their tree.
        """
        words = self._words(list_of_texts(sentences, "sentences"))
        ids = self.tokenizer.encode([" ".join(each) for each in words])
        return self.parse_ids(ids, words, n_best, on_progress)

    def parse_ids(self, ids, words, n_best=1, on_progress=None):
        """Parses sentences that are ids already.

        Args:
            ids: list of int32 arrays, as WordTokenizer makes them.
            words: list of lists of str, one word for each in the ids.
            n_best: as for `parse`.
            on_progress: as for `parse`.

        Returns:
            As `parse`.
        """
        real = [number for number, each in enumerate(words) if each]

        def ask(batch):
            numbers = [real[place] for place in batch]
            return self._asked(
                [ids[number] for number in numbers],
                [words[number] for number in numbers],
                n_best,
            )

        lengths = [len(ids[number]) for number in real]
        for number, length in zip(real, lengths):
            self._check_length(words[number], length)
        found = [[Parse(None, 0.0)] for _ in words]
        answers = translate_in_batches(
            lengths, self._batch_tokens, ask, on_progress
        )
        for number, answer in zip(real, answers or []):
            found[number] = answer
        return found

    def _check_length(self, words, pieces):
        # The smallest tree has a bracket around the words, and an end.
        if max(pieces, len(words) + 3) > self._most_ids:
            raise InputError(
                f"A sentence of {len(words):,} words, {pieces:,} pieces, is "
                f"longer than the {self._most_ids:,} that this model parses; "
                f"it begins {' '.join(words)[:40]!r}. One sentence a line was "
                "expected; split it."
            )

    def _words(self, sentences):
        """Returns each sentence's words as a tree can hold them."""
        if not sentences:
            return []
        self.tokenizer.pieces.revive()
        found = self.tokenizer.words(tf.constant(sentences)).to_list()
        return [[word.decode("utf-8") for word in each] for each in found]

    def _asked(self, ids, words, n_best):
        counts = [len(each) for each in words]
        tokens, scores = self._graph(n_best)(pad_ids(ids), counts)
        found = []
        for sentence, rows, values in zip(
            words, tokens.numpy().tolist(), scores.numpy().tolist()
        ):
            parses = [
                Parse(self._tree(row, sentence), score)
                for row, score in zip(rows, values)
                if END_ID in row
            ]
            found.append(parses[:n_best])
        return found

    def _tree(self, row, words):
        symbols = self.symbols.symbols_of(row[: row.index(END_ID)])
        return delinearise(symbols, list(map(penn_word, words)))

    def _graph(self, n_best):
        """Returns the search of which so many are certain; made once each."""
        if n_best not in self._graphs:
            self._graphs[n_best] = tf.function(
                functools.partial(self.search, n_best=n_best),
                input_signature=[_IDS, _COUNTS],
                autograph=False,
            )
        return self._graphs[n_best]

    def search(self, source, words, n_best):
        """Finds the best trees; called inside a graph.

        Args:
            source: int32 [B, S], each sentence ending with the end id, then
                padding.
            words: int32 [B], the number of words of each, at least 1.
            n_best: as for `parse`.

        Returns:
            ids of symbols, int32 [B, K, T], each tree's ending with the end
            id, and scores, float32 [B, K], best first; a row without the end
            id is none.
        """
        longest = tf.minimum(_SYMBOLS_A_WORD * words + 2, words + self._extra)
        # A bracket around the words, and the end.
        longest = tf.maximum(longest, words + 3)
        if self.model.config.positions == "learned":
            longest = tf.minimum(longest, self._most_ids)
        state = self._grammar.start(words, longest)
        return kt.translate_ids_in_segments(
            # Of no sentences the maximum is below 0.
            *(self.model, source, tf.maximum(tf.reduce_max(longest), 1)),
            kt.Constraints(longest, grammar=state),
            dataclasses.replace(self.rules, n_best=n_best),
            cache=InPlaceKVCache,
        )[:2]
