"""Translates, samples and scores text with models in this process."""

import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    pad_ids,
)
from export.translators.graph_translator import (
    IDS_SPEC,
    GraphTranslator,
    TracedSearch,
    trace_once,
)
from export.translators.model_translator import (
    ModelTranslator,
    model_for_tokenizer,
)
from export.translators.term_ops import (
    find_copies,
    find_sentence_terms,
    tokenize_terms,
    validate_targets,
    word_edges,
)
from export.translators.terms import request_inputs
from export.translators.text_ops import (
    exclude_tags,
    source_word_spans,
    target_word_spans,
)
from export.translators.text_translator import (
    IMPOSSIBLE_SCORE,
    IdPair,
    Translation,
    drop_impossible,
    word_attributes,
)


class Translator(ModelTranslator):
    """Translates, samples and scores texts with a Keras model.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        batch_tokens: see TextTranslator.
        max_source_tokens: maximum number of ids of a source, the end id
            included; 512 by default.
        compiled: whether XLA compiles the search, for the lowest latency of
            single sentences in a long-running process.
        num_threads: see TextTranslator; give 1 thread if other processes use
            the other CPUs.
        **search: arguments of GraphTranslator.

    The attribute `target_pieces` has the ids of the tokens that translations
    may contain, None for all. Raises ValueError if a number is out of range.
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
        self.model = model = model_for_tokenizer(model, tokenizer)
        # With a limit of 1 token every batch has one sentence.
        self.batch_tokens = 1 if compiled else batch_tokens
        self.num_threads, self.compiled = num_threads, compiled
        graph_translator = GraphTranslator(model, **search)
        super().__init__(tokenizer, graph_translator.config, max_source_tokens)
        self.target_pieces = graph_translator.target_pieces
        limits = (self.source_limit, self.target_limit) if compiled else None
        self._traced_search = TracedSearch(graph_translator, limits)
        self._traced_score = trace_once(
            graph_translator.score, IDS_SPEC, IDS_SPEC
        )
        self._graph_translator = graph_translator
        self._samplers = {}
        # The Terms that were validated, and the kt.WordEdges for them.
        self._terms, self._word_edges = None, None

    def score(self, texts, translations):
        """Returns a list of the log-probabilities of given translations.

        They have no length penalty and include the end id. Sources are
        truncated as in `translate`, translations to their maximum length. With
        a blank source a blank translation scores 0, any other -1e9.
        """
        pairs = self.encode_pairs(texts, translations)

        def score_batch(batch):
            return self._traced_score(
                pad_ids([pair.source for pair in batch]),
                pad_ids([pair.target for pair in batch]),
            ).numpy()

        scores = self._map_batches(score_batch, pairs)
        for index, score in enumerate(scores):
            if score is None:
                is_blank = len(pairs[index].target) == 1
                scores[index] = 0.0 if is_blank else IMPOSSIBLE_SCORE
        return [*map(float, scores)]

    def encode_pairs(self, texts, translations):
        """Returns texts and translations as a list of IdPair; see `score`."""
        sources = self.sentences(texts)
        targets = self.encode_targets(translations)
        return [
            IdPair(source.ids, target, source.truncated, target_truncated)
            for source, (target, target_truncated) in zip(
                sources, targets, strict=True
            )
        ]

    def sample(self, texts, seeds, config=None, on_progress=None):
        """Samples translations of each sentence.

        `seeds` has an int from 0 to 2**31 - 1 for each sentence, whose samples
        depend on no other sentence; `config` is a kt.SamplingConfig. Returns a
        list of lists of Translation in the order drawn, with log-probabilities
        as scores; blank text has one.
        """
        sentences = [
            sentence._replace(seed=seed)
            for sentence, seed in zip(self.sentences(texts), seeds, strict=True)
        ]
        config = config or kt.SamplingConfig()
        if config not in self._samplers:
            self._samplers[config] = trace_once(
                lambda source, seeds: self._graph_translator.sample(
                    source, seeds, config
                ),
                IDS_SPEC,
                tf.TensorSpec([None], tf.int32),
            )

        def sample_batch(batch):
            samples = self._samplers[config](
                pad_ids([sentence.ids for sentence in batch]),
                tf.constant([sentence.seed for sentence in batch], tf.int32),
            )
            texts = self._decode(samples.tokens)
            log_probs = samples.log_probs.numpy().tolist()
            return [[*map(Translation, *row)] for row in zip(texts, log_probs)]

        return self._translate_batches(sample_batch, sentences, on_progress)

    def _validate_terms(self, terms):
        if terms is self._terms:
            return
        if self.compiled:
            raise InputError(
                "XLA does not compile searches with terms: omit --compiled, or "
                "--terms and --keep."
            )
        # Once: each has graphs of its own.
        self._word_edges = self._word_edges or word_edges(self.tokenizer.target)
        if self._word_edges is None:
            raise InputError(
                "Terms need a vocabulary whose tokens begin with spaces; that "
                "of this model has spaces at their ends."
            )
        validate_targets(self.tokenizer.target, terms)
        self._terms = terms

    def _find_terms(self, terms, sentences):
        return find_sentence_terms(self.tokenizer, terms, sentences)

    def _search_best(self, sentences):
        source = pad_ids([sentence.ids for sentence in sentences])
        return self._traced_search.search(source).tokens[:, 0].numpy()

    def _search(self, sentences, n, align):
        source = pad_ids([sentence.ids for sentence in sentences])
        prefix = None
        if any(len(sentence.prefix) for sentence in sentences):
            prefix = pad_ids([sentence.prefix for sentence in sentences])
        options = {}
        if any(sentence.terms for sentence in sentences):
            inputs = request_inputs([each.terms for each in sentences])
            targets = tf.constant(inputs["target_terms"])
            terms = (
                tokenize_terms(self.tokenizer.target, targets)[0],
                find_copies(tf.constant(inputs["source_terms"]), targets),
            )
            options = {"terms": terms, "n_best": n}
            options["word_edges"] = self._word_edges
        output = self._traced_search.search(source, prefix, align, **options)
        tokens = output.tokens[:, :n]
        scores = output.scores[:, :n].numpy().tolist()
        words = [{}] * len(sentences)
        if align:
            texts = tf.constant([sentence.text for sentence in sentences])
            source_words = source_word_spans(
                self.tokenizer.source, texts, source, self.source_limit
            )
            source_words = exclude_tags(
                self.tokenizer.source, source, source_words
            )
            target_words = target_word_spans(
                self.tokenizer.target, tokens[:, 0]
            )
            words = map(
                word_attributes,
                source_words.numpy(),
                target_words.numpy(),
                output.alignments[:, 0].numpy(),
                output.log_probs.numpy(),
            )
        return [*map(drop_impossible, self._decode(tokens), scores, words)]
