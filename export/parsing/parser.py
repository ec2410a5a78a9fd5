"""Parses sentences with a trained parser."""

import dataclasses
import os
import typing
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import (
    ModelDirectory,
    load_model_or_ensemble,
    validate_equal,
)
from export.parsing.linearization import SymbolVocabulary, delinearize
from export.parsing.trees import escape_brackets, format_tree
from export.parsing.word_tokenizer import WordTokenizer, split_at_spaces
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    map_in_batches,
    pad_ids,
    truncation_limit,
    validate_texts,
)
from export.translators.translation import damaged_weights_error
from keras_transformer.config import END_ID
from keras_transformer.parsing.tree_grammar import TreeGrammar
from keras_transformer.types import Tensor, TensorLike

# JAX needs no TensorFlow.
_IS_JAX = keras.backend.backend() == "jax"
if _IS_JAX:
    from export.translators.ids_backend import (
        compile_for_model,
        pad_to_powers,
    )
else:
    import tensorflow as tf

    from export.translators.graph_translator import (
        IDS_SPEC,
        InPlaceKVCache,
        trace_once,
    )

# Maximum ids of a sentence; the memory of attention grows with its square.
MAX_SOURCE_IDS = 2048
# Maximum symbols of a tree per word, and besides; far more than in treebanks.
_MAX_SYMBOLS_PER_WORD, _MAX_EXTRA_SYMBOLS = 8, 2


class Parse(typing.NamedTuple):
    """A tree over exactly the words of a sentence.

    Attributes:
        tree: nltk.Tree; None for a sentence without words.
        score: log-probability / length penalty.
        source_truncated: always False; as in Translation, for `process_lines`.
    """

    tree: typing.Any
    score: float
    source_truncated: bool = False

    @property
    def text(self) -> str:
        """The tree as a bracketed line; "" for a sentence without words."""
        return "" if self.tree is None else format_tree(self.tree)


def load_symbols(directory: ModelDirectory) -> SymbolVocabulary:
    """Reads a parser's symbols; InputError if it has none."""
    text = directory.read_symbols()
    try:
        return SymbolVocabulary.from_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{directory.symbols_path} cannot be used: {error}"
        ) from error


class Parser:
    """Finds the trees with the highest penalized log-probability.

    The search generates only trees over the words of the sentence (see
    `TreeGrammar`). It nests at most as many brackets, and opens at most as many
    in a row, as the trees of the training data.

    Args:
        model: the model, or several.
        tokenizer: that of its words.
        symbols: those of its trees.
        beam_size: field of TransformerConfig; None for the model's.
        alpha: field of TransformerConfig; None for the model's.
        batch_tokens: source positions in a batch, padding included.

    The attribute `search_config` is its BeamSearchConfig. Raises ValueError if
    the model was built for vocabularies of other sizes.
    """

    def __init__(
        self,
        model: kt.Transformer | kt.Ensemble,
        tokenizer: WordTokenizer,
        symbols: SymbolVocabulary,
        beam_size: int | None = None,
        alpha: float | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ):
        config = model.config
        expected = config.encoder_vocabulary_size, config.vocabulary_size
        sizes = tokenizer.vocabulary_size, symbols.vocabulary_size
        if sizes != expected:
            raise ValueError(
                f"Expected vocabularies of {expected} ids for the model, got "
                f"{sizes}."
            )
        self.model, self.tokenizer, self.symbols = model, tokenizer, symbols
        self._batch_tokens = batch_tokens
        self._max_ids = truncation_limit(config, MAX_SOURCE_IDS)
        search_config = kt.BeamSearchConfig.from_config(config)
        self.beam_size = beam_size or search_config.beam_size
        self.search_config = dataclasses.replace(
            search_config,
            beam_size=self.beam_size,
            alpha=search_config.alpha if alpha is None else alpha,
            grammar=TreeGrammar(
                len(symbols.labels),
                len(symbols.tags),
                max(symbols.max_depth, 1),
                max(symbols.max_open, 1),
            ),
        )
        self._searches_by_n_best: dict[int, Callable] = {}

    @classmethod
    def from_directory(
        cls,
        *paths: str | os.PathLike,
        ensemble_mean: str | None = None,
        **settings: typing.Any,
    ) -> typing.Self:
        """Loads model directories of trainers.parsing, several as an ensemble.

        `settings` are arguments of Parser. Raises InputError if a directory is
        damaged or has no parser, or if vocabularies differ.
        """
        directories = [ModelDirectory(path) for path in paths]
        symbols = [load_symbols(directory) for directory in directories]
        validate_equal(paths, symbols, "symbols of trees")
        protos = [directory.read_vocabulary() for directory in directories]
        validate_equal(paths, protos, "vocabularies")
        model = load_model_or_ensemble(directories, ensemble_mean)
        try:
            tokenizer = WordTokenizer(protos[0])
            return cls(model, tokenizer, symbols[0], **settings)
        except ValueError as error:
            raise InputError(f"{paths[0]} cannot be used: {error}") from error

    def parse(
        self,
        sentences: Iterable[str],
        n_best: int = 1,
        on_progress: Callable[[int], object] | None = None,
    ) -> list[list[Parse]]:
        """Parses sentences, words separated by white space.

        Returns a list of lists of at most `n_best` Parse, best first; for a
        sentence without words one Parse without a tree. `on_progress` is called
        with the number of sentences just parsed. Raises InputError if a
        sentence has more than `MAX_SOURCE_IDS` ids, or it or its tree needs
        more learned positions than the model has.
        """
        sentences = validate_texts(sentences, "sentences")
        if not sentences:
            return []
        words = [*map(split_at_spaces, sentences)]
        ids = self.tokenizer.encode([" ".join(row) for row in words])
        return self.parse_ids(ids, words, n_best, on_progress)

    def parse_ids(
        self,
        ids: Sequence[np.ndarray],
        words: Sequence[Sequence[str]],
        n_best: int = 1,
        on_progress: Callable[[int], object] | None = None,
    ) -> list[list[Parse]]:
        """Parses tokenized sentences; see `parse`.

        `ids` are int32 arrays of WordTokenizer, `words` the words of each
        sentence.
        """
        for sentence_words, sentence_ids in zip(words, ids):
            self._validate_length(sentence_words, len(sentence_ids))

        parses = map_in_batches(
            # Length 1, the end id alone, excludes a sentence from the batches.
            [len(ids[i]) if words[i] else 1 for i in range(len(ids))],
            self._batch_tokens,
            lambda batch: self._parse_batch(
                [ids[i] for i in batch], [words[i] for i in batch], n_best
            ),
            on_progress,
            # XLA uses all processors for one batch.
            num_threads=1 if _IS_JAX else NUM_THREADS,
        )
        if [] in parses:
            raise damaged_weights_error("tree")
        blank = [Parse(None, 0.0)]
        return [blank if trees is None else trees for trees in parses]

    def _validate_length(self, words, num_ids):
        # The smallest tree has one bracket around the words, and the end id.
        if max(num_ids, len(words) + 3) > self._max_ids:
            raise InputError(
                f"Expected one sentence per line of at most {self._max_ids:,} "
                f"tokens, got {len(words):,} words, {num_ids:,} tokens: split "
                f"{' '.join(words)[:40]!r}..."
            )

    def _parse_batch(self, ids, words, n_best):
        if n_best not in self._searches_by_n_best:
            self._searches_by_n_best[n_best] = self._compile_search(n_best)
        num_words = np.array(list(map(len, words)), np.int32)
        search = self._searches_by_n_best[n_best]
        symbols, scores = map(np.asarray, search(ids, num_words))
        parses = []
        for row, sentence_words in enumerate(words):
            beams = zip(symbols[row].tolist(), scores[row])
            trees = [
                Parse(self._to_tree(symbol_ids, sentence_words), float(score))
                for symbol_ids, score in beams
                if END_ID in symbol_ids
            ]
            parses.append(trees[:n_best])
        return parses

    def _compile_search(self, n_best):
        """Returns `search` of a list of ids and an array of word counts.

        On JAX its result may have more rows.
        """

        def search(source, num_words):
            return self.search(source, num_words, n_best)

        if not _IS_JAX:
            graph = trace_once(
                search, IDS_SPEC, tf.TensorSpec([None], tf.int32)
            )
            return lambda ids, num_words: graph(pad_ids(ids), num_words)
        compiled = compile_for_model(self.model, search)

        def search_padded(ids, num_words):
            source = pad_to_powers(ids, self._max_ids)
            num_added = len(source) - len(ids)
            return compiled(
                source, np.pad(num_words, (0, num_added), constant_values=1)
            )

        return search_padded

    def _to_tree(self, symbol_ids, words):
        symbols = self.symbols.decode(symbol_ids[: symbol_ids.index(END_ID)])
        # The words of `parse` are escaped already, those of a treebank are not.
        return delinearize(symbols, list(map(escape_brackets, words)))

    def search(
        self, source: TensorLike, num_words: TensorLike, n_best: int
    ) -> tuple[Tensor, Tensor]:
        """Finds the best trees, inside a graph or a function compiled by JAX.

        `source` is int32 [B, S], each sentence ending with the end id, then
        padding; `num_words` is int32 [B], at least 1. Returns ids of symbols,
        int32 [B, K, T], and scores, float32 [B, K], best first; rows without
        the end id are not trees.
        """
        max_lengths = self._max_length(num_words, ops.minimum, ops.maximum)
        grammar: typing.Any = self.search_config.grammar
        state = grammar.start(num_words, max_lengths)
        if _IS_JAX:
            # A constant for XLA: words have tokens, a sentence has the end id.
            longest = self._max_length(source.shape[1] - 1, min, max)
            options: dict[str, typing.Any] = {}
        else:
            # The maximum of an empty batch is below 0.
            longest = ops.max(max_lengths, initial=1)
            options = {"shrink_batch": True, "cache": InPlaceKVCache}
        output = kt.translate_ids(
            self.model,
            source,
            longest,
            kt.Constraints(max_lengths, grammar=state),
            dataclasses.replace(self.search_config, n_best=n_best),
            **options,
        )
        return output.tokens, output.scores

    def _max_length(self, num_words, minimum, maximum):
        """Returns the maximum number of symbols, the end id included."""
        longest = minimum(
            _MAX_SYMBOLS_PER_WORD * num_words + _MAX_EXTRA_SYMBOLS,
            # Parsers count it from the words, not from the source tokens.
            num_words + self.model.config.max_extra_tokens,
        )
        # The smallest tree, as in `_validate_length`.
        longest = maximum(longest, num_words + 3)
        if self.model.config.positions == "learned":
            longest = minimum(longest, self._max_ids)
        return longest
