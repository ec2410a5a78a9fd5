"""A translator as graphs for TensorFlow Serving."""

import uuid

import tensorflow as tf

from export.translators.batches import character_limit, truncation_limit
from export.translators.graph_translator import GraphTranslator
from export.translators.int8 import NOT_SUPPORTED, multiplies_exactly
from export.translators.languages import Languages
from export.translators.model_translator import model_for_tokenizer
from export.translators.term_ops import (
    find_copies,
    find_terms,
    tokenize_terms,
    word_edges,
)
from export.translators.text_ops import (
    add_tags,
    exclude_tags,
    padded_ids_to_tokens,
    remove_tags,
    source_word_spans,
    target_word_spans,
    trim,
    truncate_ids,
    truncate_text,
)
from export.translators.text_translator import IMPOSSIBLE_SCORE
from keras_transformer.config import PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.output_vocabulary import replace_output_layer
from keras_transformer.decoding.translate import FullOutputLayer

_IDS = tf.TensorSpec([None, None], tf.int32, name="ids")


def _text_signature(*names):
    specs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
    return tf.function(input_signature=specs, autograph=False)


class ServedTranslator(tf.Module):
    """Translates text inside one graph; docs/serving.md lists the signatures.

    A SavedModel with a Keras 3 model passes `tf.saved_model.load` but fails in
    the server. So the Keras model is only within the GraphTranslator, a plain
    object, which TensorFlow does not save; its variables are attributes.

    Bytes that are not UTF-8 count as U+FFFD; NUL is dropped. Blank text gives
    empty text. Only rounding depends on the rest of a batch. Sources above
    `max_source_tokens` ids, the end id included, or above `character_limit`
    are truncated, since one text must not fail a merged batch; every signature
    returns `truncated` bool [B]. `languages` are those of texts without tags,
    and `search` arguments of GraphTranslator. Raises InputError if a model like
    M2M-100 has no such languages.
    """

    task = "translation"

    def __init__(
        self,
        model,
        tokenizer,
        max_source_tokens=256,
        languages=None,
        **search,
    ):
        super().__init__(name="served_translator")
        self.parameters = model.count_params()
        model = model_for_tokenizer(model, tokenizer)
        languages = languages or Languages.from_tokenizer(tokenizer)
        self._tags = []
        if languages.num_tags == 2 or languages.target in languages.codes:
            self._tags = languages.tags()
        self.languages = languages
        translator = GraphTranslator(model, **search)
        self._output_matrices = []
        if translator.search_model is model and not translator.quantization:
            translator.search_model = replace_output_layer(
                model, self._new_output_layer
            )
        config = translator.config
        self.tokenizer, self.config = tokenizer, config
        self._word_edges = word_edges(tokenizer.target)
        self._graph_translator = translator
        self.max_source_tokens = truncation_limit(config, max_source_tokens)
        max_target_tokens = self.max_source_tokens + config.max_extra_tokens
        self.max_target_tokens = truncation_limit(config, max_target_tokens)
        weights = [*translator.search_model.weights, *translator.int8_weights]
        self.model_variables = [weight.value for weight in weights]
        if translator.quantization:
            self._processor_check = _ProcessorCheck()
        # As a tf.function it is shared by three signatures.
        self._search = tf.function(
            translator.search, input_signature=[_IDS], autograph=False
        )

    @property
    def target_pieces(self):
        """Ids of the tokens that translations may contain; None for all."""
        return self._graph_translator.target_pieces

    def limits(self):
        """Returns the settings and limits of the search, a dict."""
        shortlist = self._graph_translator.shortlist
        return {
            "beam_size": self.config.beam_size,
            "alpha": self.config.alpha,
            "stop_criterion": self.config.stop_criterion,
            "max_source_tokens": self.max_source_tokens,
            "max_extra_tokens": self.config.max_extra_tokens,
            "target_pieces": self.target_pieces and len(self.target_pieces),
            "shortlist": shortlist and shortlist.size,
            "quantization": self._graph_translator.quantization,
        }

    def signatures(self):
        """Returns the signatures: dict, name to tf.function."""
        signatures = {
            "serving_default": self.translate,
            "n_best": self.n_best,
            "align": self.align,
            "score": self.score,
            "tokens": self.tokens,
            "lengths": self.lengths,
        }
        if self._word_edges is not None:
            signatures["translate_with_terms"] = self.translate_with_terms
        if self.languages.codes:
            signatures["translate_languages"] = self.translate_languages
        return signatures

    @_text_signature("text")
    def translate(self, text):
        """The signature `serving_default`; empty text scores 0."""
        source, truncated = self._tokenize_source(text)
        output = self._search(source)
        has_text = _has_text(source)
        translation = self.tokenizer.target.detokenize(output.tokens[:, 0])
        return {
            "translation": tf.where(has_text, translation, ""),
            "score": tf.where(has_text, output.scores[:, 0], 0.0),
            "truncated": truncated,
        }

    @_text_signature("text", "source_language", "target_language")
    def translate_languages(self, text, source_language, target_language):
        """The signature `translate_languages`.

        Tags that a text begins with have precedence. A language that the model
        lacks gives an empty translation with score -1e9. The source's language
        is used only if the model has a tag for it; "" is the default one.
        """
        default = self.languages.source or ""
        source = tf.where(source_language == "", default, source_language)
        codes = [source, target_language]
        tags = [tf.strings.join([">>", code, "<<"]) for code in codes]
        tags = tags[2 - self.languages.num_tags :]
        is_known = [self.tokenizer.source.has_token(tag) for tag in tags]
        is_known = tf.reduce_all(is_known, axis=0)
        outputs = self.translate(add_tags(text, tags, self.languages))
        return {
            "translation": tf.where(is_known, outputs["translation"], ""),
            "score": tf.where(is_known, outputs["score"], IMPOSSIBLE_SCORE),
            "truncated": outputs["truncated"],
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([None, None], tf.string, name="source_terms"),
            tf.TensorSpec([None, None], tf.string, name="target_terms"),
        ],
        autograph=False,
    )
    def translate_with_terms(self, text, source_terms, target_terms):
        """The signature `translate_with_terms`.

        Empty text scores 0; a text whose terms cannot be spelled -1e9.
        """
        expected = [tf.shape(text)[0], tf.shape(source_terms)[1]]
        for terms in source_terms, target_terms:
            tf.debugging.assert_equal(
                tf.shape(terms),
                expected,
                "Source and target terms must have one shape, a row per text.",
            )
        source, truncated = self._tokenize_source(text)
        # The search needs at least one.
        padding = [[0, 0], [0, tf.cast(expected[1] == 0, tf.int32)]]
        found = find_terms(remove_tags(text, self.languages), source_terms)
        targets = tf.pad(tf.where(found, target_terms, ""), padding)
        terms, is_wrong = tokenize_terms(self.tokenizer.target, targets)
        output = self._graph_translator.search(
            source,
            terms=terms,
            copied_terms=find_copies(tf.pad(source_terms, padding), targets),
            word_edges=self._word_edges,
            n_best=1,
        )
        is_possible = ~tf.reduce_any(is_wrong, axis=1)
        score = tf.where(is_possible, output.scores[:, 0], IMPOSSIBLE_SCORE)
        has_text = _has_text(source)
        translation = self.tokenizer.target.detokenize(output.tokens[:, 0])
        return {
            "translation": tf.where(has_text & is_possible, translation, ""),
            "score": tf.where(has_text, score, 0.0),
            "truncated": truncated,
        }

    @_text_signature("text")
    def n_best(self, text):
        """The signature `n_best`; empty text has one result."""
        source, truncated = self._tokenize_source(text)
        tokens, scores = self._translate_n_best(source)
        shape = [tf.shape(source)[0], self.config.beam_size]
        texts = self.tokenizer.target.detokenize(
            tf.reshape(tokens, [-1, tf.shape(tokens)[2]])
        )
        return {
            "translations": tf.reshape(texts, shape),
            "scores": tf.reshape(scores, shape),
            "truncated": truncated,
        }

    @_text_signature("text")
    def align(self, text):
        """The signature `align`; padding and empty text have "" and 0."""
        text = add_tags(text, self._tags, self.languages)
        source, truncated = self._tokenize_source(text)
        output = self._graph_translator.search(source, align=True)
        has_text = _has_text(source)
        target = trim(tf.where(has_text[:, None], output.tokens[:, 0], PAD_ID))
        alignment = output.alignments[:, 0, : tf.shape(target)[1]]
        source = tf.where(has_text[:, None], source, PAD_ID)
        is_pair = (target != PAD_ID)[:, :, None] & (source != PAD_ID)[:, None]
        tokenizers = self.tokenizer
        source_words = source_word_spans(
            tokenizers.source, text, source, self.max_source_tokens
        )
        source_words = exclude_tags(tokenizers.source, source, source_words)
        return {
            "translation": tokenizers.target.detokenize(target),
            "score": tf.where(has_text, output.scores[:, 0], 0.0),
            "truncated": truncated,
            "source_words": source_words,
            "target_words": target_word_spans(tokenizers.target, target),
            "source_tokens": padded_ids_to_tokens(tokenizers.source, source),
            "target_tokens": padded_ids_to_tokens(tokenizers.target, target),
            "alignment": tf.where(is_pair, alignment, 0.0),
            "token_log_probs": tf.where(
                target != PAD_ID,
                output.log_probs[:, : tf.shape(target)[1]],
                0.0,
            ),
        }

    @_text_signature("text", "translation")
    def score(self, text, translation):
        """The signature `score`; long translations are truncated.

        Empty text scores 0 with an empty translation, else -1e9.
        """
        tf.debugging.assert_equal(
            tf.shape(text),
            tf.shape(translation),
            "There must be as many translations as texts.",
        )
        source, source_truncated = self._tokenize_source(text)
        target, target_truncated = _tokenize(
            self.tokenizer.target, translation, self.max_target_tokens
        )
        blank_score = tf.where(_has_text(target), IMPOSSIBLE_SCORE, 0.0)
        score = self._graph_translator.score(source, target)
        return {
            "score": tf.where(_has_text(source), score, blank_score),
            "truncated": source_truncated | target_truncated,
        }

    @tf.function(input_signature=[_IDS], autograph=False)
    def tokens(self, ids):
        """The signature `tokens`; ids outside the vocabulary are unknown."""
        known = (ids >= 0) & (ids < self.config.encoder_vocabulary_size)
        source, truncated = truncate_ids(
            tf.where(known, ids, UNKNOWN_ID), self.max_source_tokens
        )
        # The model needs at least one position.
        missing = tf.cast(tf.shape(source)[1] == 0, tf.int32)
        source = tf.pad(source, [[0, 0], [0, missing]])
        tokens, scores = self._translate_n_best(source)
        return {"ids": trim(tokens), "scores": scores, "truncated": truncated}

    @_text_signature("text")
    def lengths(self, text):
        """The signature `lengths`: of texts as sources and translations."""
        source = add_tags(text, self._tags, self.languages)
        found, others = (
            _count_tokens(
                self.tokenizer.source, source, self.max_source_tokens
            ),
            _count_tokens(self.tokenizer.target, text, self.max_target_tokens),
        )
        return found | {f"translation_{name}": others[name] for name in others}

    def _new_output_layer(self, model):
        layer = _ServedOutputLayer(model.output_embedding)
        self._output_matrices.append(layer.matrix)
        return layer

    def _tokenize_source(self, text):
        text = add_tags(text, self._tags, self.languages)
        return _tokenize(self.tokenizer.source, text, self.max_source_tokens)

    def _translate_n_best(self, source):
        """Returns tokens and scores; blank text gets only "" with score 0."""
        tokens, scores, *_ = self._search(source)
        has_text = _has_text(source)
        missing = [IMPOSSIBLE_SCORE] * (self.config.beam_size - 1)
        tokens = tf.where(has_text[:, None, None], tokens, PAD_ID)
        return tokens, tf.where(has_text[:, None], scores, [0.0, *missing])


class _ServedOutputLayer(FullOutputLayer):
    """The whole vocabulary, with a matrix that requests share."""

    weights = ()

    def __init__(self, embedding):
        self._embedding = embedding
        self.matrix = _OutputMatrix(embedding.embeddings.value)

    def logits(self, states, prepared):
        return self._embedding.logits(states, self.matrix.read())


class _ProcessorCheck(tf.saved_model.experimental.TrackableResource):
    """Fails when an export is loaded where int8 products are not exact."""

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[])

    def _initialize(self):
        tf.debugging.Assert(multiplies_exactly(), [NOT_SUPPORTED])


class _OutputMatrix(tf.saved_model.experimental.TrackableResource):
    """The transpose [D, V] of embeddings, made when an export is loaded.

    Requests of one sentence take 4 % less time than if each made it.
    """

    def __init__(self, embeddings):
        super().__init__()
        self._embeddings = embeddings
        # Handles of one name would be one variable.
        self._name = f"output_matrix_{uuid.uuid4().hex}"
        self._initialize()

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(
            dtype=tf.float32,
            shape=self._embeddings.shape[::-1],
            shared_name=self._name,
        )

    def _initialize(self):
        matrix = tf.transpose(self._embeddings)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=matrix)

    def _destroy_resource(self):
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle)

    def read(self):
        matrix = tf.raw_ops.ReadVariableOp(
            resource=self.resource_handle, dtype=tf.float32
        )
        matrix.set_shape(self._embeddings.shape[::-1])
        return matrix


def _tokenize(tokenizer, text, limit):
    """Returns int32 [B, S] and bool [B]: which rows were truncated."""
    text, has_more_characters = truncate_text(
        tokenizer, text, character_limit(limit)
    )
    ids, has_more_ids = truncate_ids(tokenizer.tokenize(text), limit)
    return ids, has_more_characters | has_more_ids


def _count_tokens(tokenizer, text, limit):
    """Returns lengths before truncation to `limit` tokens, a dict."""
    text, truncated = truncate_text(tokenizer, text, character_limit(limit))
    lengths = tf.cast(tokenizer.tokenize(text).row_lengths(), tf.int32)
    limits = tf.fill(tf.shape(lengths), limit)
    truncated |= lengths > limit
    return {"length": lengths, "limit": limits, "truncated": truncated}


def _has_text(ids):
    return tf.math.count_nonzero(ids, axis=1) > 1
