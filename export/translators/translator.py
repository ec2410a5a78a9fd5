"""Translates text with a trained model."""

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.model_directory import ModelDirectory
from export.translators.batches import AT_ONCE, BATCH_TOKENS, in_batches
from export.translators.graphs import (
    IDS_SPEC,
    CompiledGraphs,
    OpenGraphs,
    one_graph,
)
from export.translators.id_translator import IdTranslator
from export.translators.text_ids import (
    IdPair,
    UnknownCharacter,
    padded,
    source_limit,
)
from export.translators.text_translator import (
    IMPOSSIBLE,
    Sentence,
    TextTranslator,
    Translation,
    complete,
    possible,
)
from export.translators.truncation import cut_ids, pieces_of
from export.translators.word_alignment import word_alignment
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID

__all__ = ["Translation", "Translator"]

MAX_SOURCE_TOKENS = 512


class Translator(TextTranslator):
    """Beam search over lists of text, with a model in this process.

    Attributes:
        max_source_tokens: sources are truncated to this many ids, the end id
            counted, or to the learned positions where they are fewer.
        target_pieces: ids of the pieces that translations are made of; None
            for all.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        batch_tokens: source positions in a batch, padding counted.
        max_source_tokens: see above; 512 by default.
        compiled: whether XLA compiles the search and sentences are searched
            for one by one: the fastest where they come one by one, in a
            process that lives long; see CompiledGraphs. Samples and scores of
            given translations are not compiled.
        at_once: batches that are asked for at a time; 1 where other processes
            have the other processors.
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
        at_once=AT_ONCE,
        **search,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = 1 if compiled else batch_tokens
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self._ids = IdTranslator(model, **search)
        self._config = self._ids.config
        self.target_pieces = self._ids.target_pieces
        self.beam_size = self._config.beam_size
        self._graphs = OpenGraphs(self._ids)
        if compiled:
            self._graphs = CompiledGraphs(
                self._ids, self._source_limit(), self._target_limit()
            )
        self._score = one_graph(self._ids.score, IDS_SPEC, IDS_SPEC)
        self._drawers = {}
        self._asked_at_once = at_once

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
        sources = self._sentences(list(texts))
        targets = cut_ids(
            self.tokenizer.target, list(translations), self._target_limit()
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
        sentences = self._sentences(list(texts))

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
            rules: kt.SamplingRules.
            on_progress: as for `translate`.

        Returns:
            A list of lists of `rules.samples` Translation, in the order drawn,
            each with its log-probability for a score; blank text has one.
        """
        sentences = self._sentences(list(texts))
        draw = self._drawer(rules or kt.SamplingRules())

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

    def as_spelt(self, prefixes):
        """Returns prefixes as translations begin with them: a list of str.

        The vocabulary spells some characters otherwise ("\ufb01" as "fi"), has
        one space where there are several, and none at the ends. One that is
        longer than a translation may be is returned as it is.

        Args:
            prefixes: list of str.

        Raises:
            UnknownCharacter: a prefix has one.
        """
        if not prefixes:
            return []
        known = self._known_prefixes(prefixes)
        spelt = self.tokenizer.target.decode(padded([ids for ids, _ in known]))
        return [
            prefix if is_cut else text
            for prefix, text, (_, is_cut) in zip(prefixes, spelt, known)
        ]

    def _in_batches(self, lengths, ask, on_progress=None):
        return in_batches(
            lengths, self.batch_tokens, ask, on_progress, self._at_once()
        )

    def _at_once(self):
        return self._asked_at_once

    def _drawer(self, rules):
        if rules not in self._drawers:
            self._drawers[rules] = one_graph(
                lambda source, seeds: self._ids.sample(source, seeds, rules),
                IDS_SPEC,
                tf.TensorSpec([None], tf.int32),
            )
        return self._drawers[rules]

    def _source_limit(self):
        return source_limit(self._config, self.max_source_tokens)

    def _target_limit(self):
        longest = self._source_limit() + self._config.max_output_extra
        return source_limit(self._config, longest)

    def _sentences(self, texts):
        return [
            Sentence(text, ids, len(ids), is_cut)
            for text, (ids, is_cut) in zip(
                texts,
                cut_ids(self.tokenizer.source, texts, self._source_limit()),
            )
        ]

    def _prefix_ids(self, prefixes):
        return [ids for ids, _ in self._known_prefixes(prefixes)]

    def _known_prefixes(self, prefixes):
        """Returns a list of pairs: ids without the end id, and if cut."""
        tokenizer = self.tokenizer.target
        found = cut_ids(tokenizer, prefixes, self._target_limit())
        for place, (ids, _) in enumerate(found):
            if UNKNOWN_ID in ids:
                character = _first_unknown(tokenizer, prefixes[place])
                raise UnknownCharacter(place, character)
        return [(ids[:-1], is_cut) for ids, is_cut in found]

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
        if align:
            pieces = (
                _pieces(self.tokenizer.source, source),
                _pieces(self.tokenizer.target, tokens[:, 0]),
            )
            attention = found.alignments[:, 0].numpy()
            links = [
                word_alignment(sentence.text, *row)
                for sentence, *row in zip(sentences, *pieces, attention)
            ]
        return [*map(possible, self._texts(tokens), scores, links)]

    def _texts(self, tokens):
        """Returns the texts of int32 [B, N, T]: a list of lists of N str."""
        rows, n, length = tokens.shape
        texts = self.tokenizer.target.decode(
            tf.reshape(tokens, [rows * n, length])
        )
        return [texts[row * n : (row + 1) * n] for row in range(rows)]


def _pieces(tokenizer, ids):
    pieces = pieces_of(tokenizer, ids).numpy().tolist()
    return [[piece.decode("utf-8") for piece in row] for row in pieces]


def _score_of_blank(target):
    return 0.0 if len(target) == 1 else IMPOSSIBLE


def _first_unknown(tokenizer, text):
    """Returns the character from which on no beginning of `text` is known."""
    # One by one some are unknown that are known together, such as the parts
    # of a Korean syllable.
    beginnings = [text[:end] for end in range(1, len(text) + 1)]
    known = [UNKNOWN_ID not in ids for ids in tokenizer.encode(beginnings)]
    last = max((end for end, each in enumerate(known, 1) if each), default=0)
    return text[last]
