"""A translator as graphs for TensorFlow Serving."""

import typing
import uuid
from collections.abc import Callable

import tensorflow as tf

import keras_transformer as kt
from export.translators.int8 import NOT_SUPPORTED, multiplies_exactly
from export.translators.languages import Languages
from export.translators.output_vocabulary_files import load_output_vocabulary
from export.translators.term_ops import find_terms
from export.translators.text_graph import TextGraph, has_tokens
from export.translators.text_ops import (
    add_tags,
    remove_tags,
    trim,
    truncate_ids,
)
from export.translators.translation import IMPOSSIBLE_SCORE
from keras_transformer.config import UNKNOWN_ID
from keras_transformer.decoding.beam_decoder import FullOutputLayer
from keras_transformer.decoding.output_vocabulary import replace_output_layer
from keras_transformer.types import Tensor

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.tokenizer import Tokenizer

_IDS = tf.TensorSpec([None, None], tf.int32, name="ids")


def _text_signature(*names):
    specs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
    return tf.function(input_signature=specs, autograph=False)


class ServedTranslator(tf.Module):
    """Translates text inside one graph; docs/serving.md lists the signatures.

    A SavedModel with a Keras 3 model passes `tf.saved_model.load` but fails in
    the server. So the Keras model is only within the TextGraph, a plain object,
    which TensorFlow does not save; its variables are attributes.

    Sources above `max_source_tokens` ids, the end id included, or above
    `character_limit` are truncated, since one text must not fail a merged
    batch; every signature returns `truncated` bool [B]. `languages` are those
    of texts without tags, and `search` arguments of GraphTranslator. Raises
    InputError if a model like M2M-100 has no such languages.
    """

    task = "translation"

    def __init__(
        self,
        model: kt.Transformer,
        tokenizer: "Tokenizer | TokenizerPair",
        max_source_tokens: int = 256,
        languages: Languages | None = None,
        **search: typing.Any,
    ):
        super().__init__(name="served_translator")
        self.parameters = model.count_params()
        languages = languages or Languages.from_tokenizer(tokenizer)
        self._tags = []
        has_source = "source" in languages.tag_sides
        if has_source or languages.target in languages.codes:
            self._tags = languages.tags()
        self.languages = languages
        graph = TextGraph(model, tokenizer, max_source_tokens, **search)
        translator = graph.translator
        self._output_matrices: list[_OutputMatrix] = []
        if translator.search_model is translator.model and (
            not translator.quantization
        ):
            translator.search_model = replace_output_layer(
                translator.model, self._new_output_layer
            )
        self.tokenizer, self.config = tokenizer, translator.config
        self._graph = graph
        weights = [*translator.search_model.weights, *translator.int8_weights]
        self.model_variables = [weight.value for weight in weights]
        if translator.quantization:
            self._processor_check = _ProcessorCheck()
        # As a tf.function it is shared by three signatures.
        self._search = tf.function(
            translator.search, input_signature=[_IDS], autograph=False
        )

    @classmethod
    def from_directory(
        cls,
        directory: typing.Any,
        source_language: str | None = None,
        target_language: str | None = None,
        **search: typing.Any,
    ) -> typing.Self:
        """Loads a ModelDirectory, for texts of these languages or its own.

        `search` are the other arguments, with paths as in
        `load_output_vocabulary`.
        """
        model, tokenizer, languages = directory.load()
        return cls(
            model,
            tokenizer,
            languages=languages.select(source_language, target_language),
            **load_output_vocabulary(search, tokenizer, model.config),
        )

    @property
    def target_pieces(self) -> list[int] | None:
        """Ids of the tokens that translations may contain; None for all."""
        return self._graph.translator.target_pieces

    def limits(self) -> dict[str, typing.Any]:
        """Returns the settings and limits of the search."""
        translator = self._graph.translator
        shortlist = translator.shortlist
        return {
            "beam_size": self.config.beam_size,
            "alpha": self.config.alpha,
            "stop_criterion": self.config.stop_criterion,
            "max_source_tokens": self._graph.source_limit,
            "max_extra_tokens": self.config.max_extra_tokens,
            "target_pieces": self.target_pieces and len(self.target_pieces),
            "shortlist": shortlist and shortlist.size,
            "quantization": translator.quantization,
        }

    def signatures(self) -> dict[str, Callable[..., dict[str, Tensor]]]:
        """Returns the signatures: dict, name to tf.function."""
        signatures = {
            "serving_default": self.translate,
            "n_best": self.n_best,
            "align": self.align,
            "score": self.score,
            "tokens": self.tokens,
            "lengths": self.lengths,
        }
        if self._graph.word_edges is not None:
            signatures["translate_with_terms"] = self.translate_with_terms
        if self.languages.codes:
            signatures["translate_languages"] = self.translate_languages
        return signatures

    @_text_signature("text")
    def translate(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `serving_default`; empty text scores 0."""
        source, truncated = self._encode(text)
        outputs = self._graph.n_best(source, 1, search=self._search)
        return _best(outputs) | {"truncated": truncated}

    @_text_signature("text", "source_language", "target_language")
    def translate_languages(
        self, text: Tensor, source_language: Tensor, target_language: Tensor
    ) -> dict[str, Tensor]:
        """The signature `translate_languages`.

        Tags that a text begins with have precedence. A language that the model
        lacks gives an empty translation with score -1e9. The source's language
        is used only if the model has a tag for it; "" is the default one.
        """
        default = self.languages.source or ""
        source = tf.where(source_language == "", default, source_language)
        codes = {"source": source, "target": target_language}
        sides = self.languages.tag_sides
        tags = [tf.strings.join([">>", codes[side], "<<"]) for side in sides]
        is_known = [self.tokenizer.source.has_token(tag) for tag in tags]
        outputs = self.translate(add_tags(text, tags, self.languages))
        return _mark_impossible(outputs, tf.reduce_all(is_known, axis=0))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([None, None], tf.string, name="source_terms"),
            tf.TensorSpec([None, None], tf.string, name="target_terms"),
        ],
        autograph=False,
    )
    def translate_with_terms(
        self, text: Tensor, source_terms: Tensor, target_terms: Tensor
    ) -> dict[str, Tensor]:
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
        source, truncated = self._encode(text)
        found = find_terms(remove_tags(text, self.languages), source_terms)
        options, is_possible = self._graph.constrain(
            source_terms, tf.where(found, target_terms, ""), 1
        )
        outputs = _best(self._graph.n_best(source, 1, **options))
        outputs = _mark_impossible(outputs, is_possible | ~has_tokens(source))
        return outputs | {"truncated": truncated}

    @_text_signature("text")
    def n_best(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `n_best`; empty text has one result."""
        source, truncated = self._encode(text)
        outputs = self._graph.n_best(
            source, self.config.beam_size, search=self._search
        )
        return outputs | {"truncated": truncated}

    @_text_signature("text")
    def align(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `align`; padding and empty text have "" and 0."""
        text = add_tags(text, self._tags, self.languages)
        source, truncated = self._graph.encode(text)
        return self._graph.align(source, text) | {"truncated": truncated}

    @_text_signature("text", "translation")
    def score(self, text: Tensor, translation: Tensor) -> dict[str, Tensor]:
        """The signature `score`; long translations are truncated.

        Empty text scores 0 with an empty translation, else -1e9.
        """
        tf.debugging.assert_equal(
            tf.shape(text),
            tf.shape(translation),
            "There must be as many translations as texts.",
        )
        source, source_truncated = self._encode(text)
        target, target_truncated = self._graph.encode_target(translation)
        return {
            "score": self._graph.score(source, target),
            "truncated": source_truncated | target_truncated,
        }

    @tf.function(input_signature=[_IDS], autograph=False)
    def tokens(self, ids: Tensor) -> dict[str, Tensor]:
        """The signature `tokens`; ids outside the vocabulary are unknown."""
        known = (ids >= 0) & (ids < self.config.encoder_vocabulary_size)
        source, truncated = truncate_ids(
            tf.where(known, ids, UNKNOWN_ID), self._graph.source_limit
        )
        # The model needs at least one position.
        missing = tf.cast(tf.shape(source)[1] == 0, tf.int32)
        source = tf.pad(source, [[0, 0], [0, missing]])
        tokens, scores, _ = self._graph.search(
            source, self.config.beam_size, self._search
        )
        return {"ids": trim(tokens), "scores": scores, "truncated": truncated}

    @_text_signature("text")
    def lengths(self, text: Tensor) -> dict[str, Tensor]:
        """The signature `lengths`: of texts as sources and translations."""
        source = add_tags(text, self._tags, self.languages)
        found, others = (
            self._graph.count_tokens(source),
            self._graph.count_target_tokens(text),
        )
        return found | {f"translation_{name}": others[name] for name in others}

    def _encode(self, text):
        return self._graph.encode(add_tags(text, self._tags, self.languages))

    def _new_output_layer(self, model):
        layer = _ServedOutputLayer(model.output_embedding)
        self._output_matrices.append(layer.matrix)
        return layer


def _best(outputs):
    """Returns the outputs of the best of n translations."""
    return {
        "translation": outputs["translations"][:, 0],
        "score": outputs["scores"][:, 0],
    }


def _mark_impossible(outputs, is_possible):
    """Returns outputs, with "" and -1e9 where `is_possible` [B] is False."""
    return outputs | {
        "translation": tf.where(is_possible, outputs["translation"], ""),
        "score": tf.where(is_possible, outputs["score"], IMPOSSIBLE_SCORE),
    }


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
