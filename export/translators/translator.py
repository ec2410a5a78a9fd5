"""Translates text with a trained model."""

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.model_directory import ModelDirectory
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    translate_in_batches,
)
from export.translators.graphs import (
    IDS_SPEC,
    CompiledGraphs,
    OpenGraphs,
    one_graph,
)
from export.translators.id_translator import IdTranslator
from export.translators.model_translator import ModelTranslator
from export.translators.text_ids import IdPair, list_of_texts, padded
from export.translators.text_translator import (
    IMPOSSIBLE,
    Translation,
    complete,
    possible,
)
from export.translators.truncation import cut_ids
from export.translators.word_alignment import word_alignment
from export.translators.word_numbers import source_words, target_words
from keras_transformer.config import END_ID, PAD_ID

__all__ = ["Translation", "Translator"]


class Translator(ModelTranslator):
    """Beam search over lists of text, with a model in this process.

    Attributes:
        target_pieces: ids of the pieces that translations are made of; None
            for all.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        batch_tokens: source positions in a batch, padding counted.
        max_source_tokens: of ModelTranslator.
        compiled: whether XLA compiles the search and sentences are searched
            for one by one: the fastest where they come one by one, in a
            process that lives long; see CompiledGraphs. Samples and scores of
            given translations are not compiled.
        num_threads: batches asked for at a time; 1 where other processes
            use the other processors.
        **search: of IdTranslator: beam_size, alpha, max_output_extra,
            min_length, stop, target_pieces, shortlist.

    Raises:
        ValueError: a number is out of range.
        InputError: of CompiledGraphs.
    """

    def __init__(
        self,
        model,
        tokenizer,
        batch_tokens=BATCH_TOKENS,
        max_source_tokens=None,
        compiled=False,
        num_threads=NUM_THREADS,
        **search,
    ):
        self.model = model
        self.batch_tokens = 1 if compiled else batch_tokens
        self._ids = IdTranslator(model, **search)
        super().__init__(tokenizer, self._ids.config, max_source_tokens)
        self.target_pieces = self._ids.target_pieces
        self._graphs = OpenGraphs(self._ids)
        if compiled:
            self._graphs = CompiledGraphs(
                self._ids, self.source_limit, self.target_limit
            )
        self._score = one_graph(self._ids.score, IDS_SPEC, IDS_SPEC)
        self._drawers = {}
        self._requested_threads = num_threads

    @classmethod
    def from_directory(cls, path, **settings):
        """Returns the translator of a model directory.

        Args:
            path: of the model directory.
            **settings: all but the first two of Translator's.

        Raises:
            InputError: it is not a whole model directory.
        """
        directory = ModelDirectory(path)
        return cls(
            directory.load_model(), directory.load_tokenizer(), **settings
        )

    def score(self, texts, translations):
        """Scores given translations.

        Args:
            texts: list of str, a sentence each.
            translations: list of str, as many.

        Returns:
            A list of float: log-probability of each translation, not divided
            by a length penalty. A source is truncated as when it is
            translated, and a translation to the longest that a source could
            have. Where the source is blank it is 0 for a blank translation,
            else -1e9.
        """
        pairs = self.given_ids(texts, translations)

        def ask(batch):
            return self._score(
                padded([pairs[number].source for number in batch]),
                padded([pairs[number].target for number in batch]),
            ).numpy()

        answers = self._in_batches([pair.length for pair in pairs], ask)
        return [
            _score_of_blank(pair.target) if answer is None else float(answer)
            for answer, pair in zip(answers, pairs)
        ]

    def given_ids(self, texts, translations):
        """Returns given translations with their texts as ids.

        Args:
            texts: as for `score`.
            translations: as for `score`.

        Returns:
            A list of IdPair, truncated as `score` says.
        """
        sources = self.sentences(texts)
        targets = cut_ids(
            self.tokenizer.target,
            list_of_texts(translations, "translations"),
            self.target_limit,
        )
        return [
            IdPair(source.ids, target, source.is_cut, target_is_cut)
            for source, (target, target_is_cut) in zip(
                sources, targets, strict=True
            )
        ]

    def best_ids(self, texts, on_progress=None):
        """Translates sentences, and keeps both sides as ids.

        Args:
            texts: list of str, a sentence each.
            on_progress: function of the number of sentences just done.

        Returns:
            A list of IdPair; of blank text the target is the end id alone.
        """
        sentences = self.sentences(texts)

        def ask(batch):
            source = padded([sentences[number].ids for number in batch])
            tokens = self._graphs.search(source).tokens[:, 0].numpy()
            return [row[row != PAD_ID] for row in tokens]

        lengths = [sentence.length for sentence in sentences]
        found = self._in_batches(lengths, ask, on_progress)
        end = np.array([END_ID], np.int32)
        return [
            IdPair(
                sentence.ids,
                end if target is None else target,
                sentence.is_cut,
            )
            for sentence, target in zip(sentences, found)
        ]

    def sample(self, texts, seeds, rules=None, on_progress=None):
        """Draws translations of each sentence.

        Args:
            texts: list of str, a sentence each.
            seeds: list of int from 0 to 2**31 - 1, one of each sentence; its
                samples depend on nothing else.
            rules: kt.SamplingConfig.
            on_progress: as for `translate`.

        Returns:
            A list of lists of `rules.samples` Translation, in the order drawn,
            each with its log-probability for a score; blank text has one.
        """
        sentences = self.sentences(texts)
        draw = self._drawer(rules or kt.SamplingConfig())

        def ask(batch):
            found = draw(
                padded([sentences[number].ids for number in batch]),
                tf.constant([seeds[number] for number in batch], tf.int32),
            )
            texts = self._texts(found.tokens)
            return [
                [*map(Translation, *row)]
                for row in zip(texts, found.log_probs.numpy().tolist())
            ]

        lengths = [sentence.length for sentence in sentences]
        return complete(sentences, self._in_batches(lengths, ask, on_progress))

    def _in_batches(self, lengths, ask, on_progress=None):
        return translate_in_batches(
            lengths, self.batch_tokens, ask, on_progress, self._num_threads()
        )

    def _num_threads(self):
        return self._requested_threads

    def _drawer(self, rules):
        if rules not in self._drawers:
            self._drawers[rules] = one_graph(
                lambda source, seeds: self._ids.sample(source, seeds, rules),
                IDS_SPEC,
                tf.TensorSpec([None], tf.int32),
            )
        return self._drawers[rules]

    def _search(self, sentences, n, align):
        source = padded([sentence.ids for sentence in sentences])
        prefix = None
        if any(len(sentence.prefix) for sentence in sentences):
            prefix = padded([sentence.prefix for sentence in sentences])
        wanted = 1 if n == 1 else self.beam_size
        found = self._graphs.search(source, prefix, wanted, align)
        tokens = found.tokens[:, :n]
        scores = found.scores[:, :n].numpy().tolist()
        links = [()] * len(sentences)
        texts = self._texts(tokens)
        if align:
            given = tf.constant([sentence.text for sentence in sentences])
            links = map(
                word_alignment,
                source_words(
                    self.tokenizer.source, given, source, self.source_limit
                ).numpy(),
                target_words(self.tokenizer.target, tokens[:, 0]).numpy(),
                found.alignments[:, 0].numpy(),
            )
        return [*map(possible, texts, scores, links)]


def _score_of_blank(target):
    return 0.0 if len(target) == 1 else IMPOSSIBLE
