"""Translates text with a trained model."""

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.errors import InputError
from export.model_directory import ModelDirectory
from export.translators.batches import BATCH_TOKENS, in_batches
from export.translators.id_translator import (
    IdTranslator,
    beginning,
    one_graph,
    pieces_of,
)
from export.translators.text_ids import (
    IdPair,
    character_limit,
    padded,
    source_limit,
)
from export.translators.text_translator import (
    IMPOSSIBLE,
    Sentence,
    TextTranslator,
    Translation,
    complete,
)
from keras_transformer.special_ids import END_ID, PAD_ID


def load_ensemble(paths, mean=None):
    """Loads models that decode together.

    Args:
        paths: of the model directories, two or more.
        mean: of kt.Ensemble; None for its default.

    Returns:
        kt.Ensemble and Tokenizer.

    Raises:
        InputError: one is not a whole model directory, or they do not go
            together.
    """
    if len(paths) < 2:
        raise InputError(
            "--ensemble_mean is of several models; give --model again for "
            "each of them, or leave it out."
        )
    directories = [ModelDirectory(path) for path in paths]
    tokenizers = [directory.load_tokenizer() for directory in directories]
    for path, tokenizer in zip(paths, tokenizers):
        if tokenizer.proto != tokenizers[0].proto:
            raise InputError(
                f"{paths[0]} and {path} have different vocabularies; only "
                "models of one vocabulary decode together."
            )
    models = [directory.load_model() for directory in directories]
    try:
        ensemble = kt.Ensemble(models, **({"mean": mean} if mean else {}))
    except ValueError as error:
        raise InputError(str(error)) from error
    return ensemble, tokenizers[0]


__all__ = ["Translation", "Translator"]

MAX_SOURCE_TOKENS = 512

IDS_SPEC = tf.TensorSpec([None, None], tf.int32)


class Translator(TextTranslator):
    """Beam search over lists of text, with a model in this process.

    Attributes:
        max_source_tokens: sources are cut to this many ids, the end id
            counted, or to the learned positions where they are fewer.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary.
        batch_tokens: source positions in a batch, padding counted.
        max_source_tokens: see above; 512 by default.
        **search: of IdTranslator: beam_size, alpha, max_extra, min_length.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        model,
        tokenizer,
        batch_tokens=BATCH_TOKENS,
        max_source_tokens=None,
        **search,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self._ids = ids = IdTranslator(model, **search)
        self.beam_size = ids.config.beam_size
        self._config = ids.config
        # One graph for every shape: XLA would compile each padded length,
        # some ten seconds apiece.
        self._encode = one_graph(ids.encode, IDS_SPEC)
        self._best = one_graph(ids.best, IDS_SPEC, ids.memory_spec)
        self._search = one_graph(ids.search, IDS_SPEC, ids.memory_spec)
        self._align = one_graph(ids.align, IDS_SPEC, ids.memory_spec)
        self._score = one_graph(ids.score, IDS_SPEC, IDS_SPEC)
        self._drawers = {}

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

    @classmethod
    def from_directories(cls, paths, ensemble_mean=None, **settings):
        """Returns the translator of models that decode together.

        Args:
            paths: of the model directories, one or more.
            ensemble_mean: `mean` of kt.Ensemble; None for its default.
            **settings: as for `from_directory`.

        Raises:
            InputError: one is not a whole model directory; vocabularies
                differ; a mean is asked for of one model.
        """
        if len(paths) == 1 and ensemble_mean is None:
            return cls.from_directory(paths[0], **settings)
        model, tokenizer = load_ensemble(paths, ensemble_mean)
        return cls(model, tokenizer, **settings)

    def score(self, texts, translations):
        """Scores given translations.

        Args:
            texts: list of str, a sentence each.
            translations: list of str, as many.

        Returns:
            A list of float: log-probability of each translation, not divided
            by a length penalty. A source is cut as when it is translated,
            and a translation to the longest that a source could have. Where
            the source is blank it is 0 for a blank translation, else -1e9.
        """
        pairs = self.given_ids(texts, translations)

        def ask(batch):
            return self._score(
                padded([pairs[number].source for number in batch]),
                padded([pairs[number].target for number in batch]),
            ).numpy()

        lengths = [pair.length for pair in pairs]
        answers = in_batches(lengths, self.batch_tokens, ask)
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
            A list of IdPair, cut as `score` says.
        """
        sources = self._sentences(list(texts))
        targets = self._beginnings(list(translations), self._target_limit())
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
            tokens, _ = self._best(source, self._encode(source))
            tokens = tokens[:, 0].numpy()
            return [row[row != PAD_ID] for row in tokens]

        lengths = [sentence.length for sentence in sentences]
        found = in_batches(lengths, self.batch_tokens, ask, on_progress)
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
            samples = found.tokens.shape[1]
            tokens = found.tokens.numpy()
            texts = self.tokenizer.decode(tokens.reshape(-1, tokens.shape[2]))
            scores = found.log_probs.numpy().ravel().tolist()
            drawn = [Translation(*each) for each in zip(texts, scores)]
            rows = range(0, len(drawn), samples)
            return [drawn[row : row + samples] for row in rows]

        lengths = [sentence.length for sentence in sentences]
        answers = in_batches(lengths, self.batch_tokens, ask, on_progress)
        return complete(sentences, answers)

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
        beginnings = self._beginnings(texts, self._source_limit())
        return [
            Sentence(text, ids, len(ids), is_cut)
            for text, (ids, is_cut) in zip(texts, beginnings)
        ]

    def _beginnings(self, texts, limit):
        """Returns a list of pairs: ids, at most `limit`, and if cut."""
        if not texts:
            return []
        texts, too_long = beginning(
            self.tokenizer, tf.constant(texts), character_limit(limit)
        )
        found = self.tokenizer.encode(texts.numpy().tolist())
        return [
            (_cut(ids, limit), bool(is_cut or len(ids) > limit))
            for ids, is_cut in zip(found, too_long.numpy())
        ]

    def _search_ids(self, source, n):
        """Returns tokens [B, K, T] and scores [B, K] of a batch."""
        search = self._best if n == 1 else self._search
        return search(source, self._encode(source))

    def _align_ids(self, source):
        """Returns tokens [B, T], scores [B] and attention [B, T, S]."""
        return self._align(source, self._encode(source))

    def _search_texts(self, sentences, n):
        source = padded([sentence.ids for sentence in sentences])
        return self._texts(*self._search_ids(source, n), n)

    def _texts(self, tokens, scores, n):
        tokens, scores = tokens[:, :n].numpy(), scores[:, :n].numpy()
        texts = self.tokenizer.decode(tokens.reshape(-1, tokens.shape[2]))
        rows = range(0, len(texts), n)
        return [texts[row : row + n] for row in rows], scores.tolist()

    def _align_texts(self, sentences):
        source = padded([sentence.ids for sentence in sentences])
        tokens, scores, attention = self._align_ids(source)
        return zip(
            self.tokenizer.decode(tokens),
            scores.numpy().tolist(),
            self._pieces(source),
            self._pieces(tokens),
            attention.numpy(),
        )

    def _pieces(self, ids):
        pieces = pieces_of(self.tokenizer, ids).numpy().tolist()
        return [[piece.decode("utf-8") for piece in row] for row in pieces]


def _cut(ids, limit):
    if len(ids) <= limit:
        return ids
    return np.append(ids[: limit - 1], END_ID).astype(np.int32)


def _score_of_blank(target):
    return 0.0 if len(target) == 1 else IMPOSSIBLE
