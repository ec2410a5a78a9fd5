"""Beam search, sampling and scoring of ids inside graphs."""

import dataclasses
import functools
import os
import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

import keras_transformer as kt
from export.translators.int8 import quantize_model
from export.translators.text_ops import trim
from keras_transformer.decoding.alignment import gather_alignments
from keras_transformer.decoding.output_vocabulary import LexicalShortlist
from keras_transformer.decoding.sampling import SamplingResult
from keras_transformer.decoding.translate import (
    output_capacity,
    output_limits,
)
from keras_transformer.types import Tensor, TransformerLike

IDS_SPEC = tf.TensorSpec([None, None], tf.int32)
_YNNPACK_FLAG = "--xla_cpu_experimental_ynn_fusion_type"


class SearchOutput(typing.NamedTuple):
    """Result of a search, best translations first.

    Attributes:
        tokens: int32 [B, K, T]; K = 1 with alignments.
        scores: float32 [B, K], -1e9 for missing translations.
        alignments: float32 [B, 1, T, S] from `gather_alignments`, or ().
        log_probs: with alignments, of each token, float32 [B, T], else (); a
            restricted vocabulary does not change them.
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    alignments: typing.Any = ()
    log_probs: typing.Any = ()


class GraphTranslator:
    """Searches, samples and scores ids; for use inside a graph.

    Args:
        model: Transformer or Ensemble.
        min_length: minimum number of tokens of an output, excluding the end
            id; a lower maximum wins. With 0 the best output may be empty.
        max_output_tokens: maximum number of tokens of any output, the end id
            included; None for no such limit.
        target_pieces: ids that a search without a prefix may generate; None
            for all. `score` and `sample` use the whole vocabulary.
        shortlist: instead, a kt.OutputVocabulary that selects the ids for each
            sentence.
        quantization: "int8" to quantize the model, in place; None for float32.
        **search: see `TransformerConfig.with_search`.

    Attributes:
        model: the model.
        config: the model's, with the settings of the search.
        target_pieces: list of the ids that a search may generate, padded to a
            multiple of 32; None for all.
        search_model: the model, restricted to target_pieces or the shortlist.
        int8_weights: variables of a quantized model that its own `weights`
            lack.

    Raises ValueError if an argument is out of range.
    """

    def __init__(
        self,
        model: TransformerLike,
        min_length: int = 1,
        max_output_tokens: int | None = None,
        target_pieces: Sequence[int] | None = None,
        shortlist: LexicalShortlist | None = None,
        quantization: str | None = None,
        **search: typing.Any,
    ):
        self.config = model.config.with_search(**search)
        self._search_config = kt.BeamSearchConfig.from_config(
            self.config,
            num_given_tokens=model.num_given_tokens,
            min_length=min_length,
        )
        if quantization not in (None, "int8"):
            raise ValueError(f"quantization must be int8, not {quantization}.")
        self.quantization = quantization
        self.int8_weights = quantize_model(model) if quantization else []
        self.model = model
        self._max_output_tokens = max_output_tokens
        self.target_pieces: list[int] | None = None
        self.shortlist = shortlist
        self._output_vocabulary: typing.Any = shortlist
        if target_pieces is not None:
            self._output_vocabulary = kt.OutputVocabulary.fixed(
                target_pieces, self.config.vocabulary_size
            )
            self.target_pieces = self._output_vocabulary.ids.tolist()
        self.search_model = model
        if self._output_vocabulary is not None:
            self.search_model = self._output_vocabulary.restrict(model)
        # As a tf.function it is shared by all graphs of this model.
        self._encode = tf.function(
            model.encode, input_signature=[IDS_SPEC], autograph=False
        )

    def search(
        self,
        source: Tensor,
        prefix: Tensor = (),
        terms: Tensor = (),
        copied_terms: Tensor = (),
        word_edges: kt.WordEdges | None = None,
        n_best: int = 0,
        align: bool = False,
        decoder: typing.Any = None,
    ) -> SearchOutput:
        """Finds the best translations.

        Args:
            source: int32 [B, S], each row ending with the end id, then
                padding; of a static shape with a decoder.
            prefix: int32 [B, P], padded: the first ids of each translation, up
                to its maximum length; () for no prefix.
            terms: int32 [B, C, A, L], see kt.Constraints, whose tokens may be
                any; or (). Maximum lengths are raised for them, up to the
                number of learned positions.
            copied_terms: boolean [B, C], or (), see kt.Constraints.
            word_edges: kt.WordEdges, with terms.
            n_best: number of needed translations, with terms; 0 for all.
            align: whether to return only the best translation, aligned.
            decoder: from `new_decoder`, for a search that XLA can compile;
                None for dynamic shapes.

        Returns SearchOutput. Raises ValueError if a prefix is given with a
        restricted vocabulary.
        """
        has_prefix = not isinstance(prefix, tuple)
        model, vocabulary = self.search_model, self._output_vocabulary
        search_config, max_length = self._search_config, None
        if has_prefix and vocabulary is not None:
            raise ValueError("A restricted vocabulary takes no prefix.")
        limits = self._limit_lengths(source)
        if word_edges is not None:
            if vocabulary is not None:
                model, vocabulary = self.model, None
            search_config = dataclasses.replace(
                search_config, word_edges=word_edges, n_best=n_best
            )
            limits = tf.maximum(limits, _count_forced(prefix, terms) + 1)
            max_length = output_capacity(source, self.config)
            max_length = tf.maximum(max_length, tf.reduce_max(limits))
            if self.config.positions == "learned":
                max_length = tf.minimum(max_length, self.config.max_positions)
        shrink_batch = decoder is None
        tokens, scores, trace = kt.translate_ids(
            model,
            source,
            max_length,
            constraints=kt.Constraints(
                limits, prefix=prefix, terms=terms, copied_terms=copied_terms
            ),
            config=search_config,
            shrink_batch=shrink_batch,
            trace_alignments=align,
            decoder=decoder,
            memory=self._encode(source) if shrink_batch else None,
            cache=InPlaceKVCache,
        )
        alignments = log_probs = ()
        if align:
            tokens, scores = tokens[:, :1], scores[:, :1]
            if shrink_batch:
                tokens = trim(tokens)
            alignments = gather_alignments(trace, tokens)
        if vocabulary is not None:
            tokens = vocabulary.to_vocabulary_ids(tokens, source)
        if align:
            # The model needs a token, also where no translation is possible.
            missing = tf.cast(tf.shape(tokens)[2] == 0, tf.int32)
            target = tf.pad(tokens[:, 0], [[0, 0], [0, missing]])
            log_probs = kt.token_log_probs(self.model, source, target)
        return SearchOutput(tokens, scores, alignments, log_probs)

    def new_decoder(self) -> typing.Any:
        """Returns a decoder that all calls of `search` can share."""
        return self.search_model.beam_decoder(self.config.beam_size)

    def sample(
        self, source: Tensor, seeds: Tensor, config: kt.SamplingConfig
    ) -> SamplingResult:
        """Samples translations; see `kt.sample_ids`."""
        return kt.sample_ids(
            self.model,
            source,
            output_capacity(source, self.config),
            seeds,
            config,
            self._limit_lengths(source),
        )

    def _limit_lengths(self, source):
        """Returns the maximum length of each output, int32 [B]."""
        limits = output_limits(source, self.config.max_extra_tokens)
        if self._max_output_tokens is None:
            return limits
        return tf.minimum(limits, self._max_output_tokens)

    def score(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the log-probabilities of given ids, float32 [B]."""
        return kt.score_ids(self.model, source, target)


def _count_forced(prefix, terms):
    """Returns the number of tokens of a prefix and all terms: int32 [B]."""
    lengths = tf.math.count_nonzero(terms, axis=3, dtype=tf.int32)
    count = tf.reduce_sum(tf.reduce_max(lengths, axis=2), axis=1)
    if isinstance(prefix, tuple):
        return count
    return count + tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32)


class InPlaceKVCache(kt.KVCache):
    """Decoder cache that is written in place.

    On a CPU, Keras' scatter copies the whole cache each time. TensorFlow's
    ScatterNdNonAliasingAdd adds to rows of zeros in the memory of its input.
    """

    __slots__ = ()

    @staticmethod
    def scatter_update(
        cache: Tensor, indices: Tensor, rows: Tensor, overwrite: bool
    ) -> Tensor:
        """See `kt.KVCache.scatter_update`."""

        def add(cache, rows):
            return tf.raw_ops.ScatterNdNonAliasingAdd(
                input=cache, indices=indices, updates=rows
            )

        if overwrite:
            # Adding the difference would cause rounding errors.
            cache = add(cache, -tf.gather_nd(cache, indices))
        return add(cache, rows)


def trace_once(
    function: Callable[..., typing.Any],
    *signature: typing.Any,
    **options: typing.Any,
) -> Callable[..., typing.Any]:
    """Returns a thread-safe tf.function that is traced at its first call only.

    `signature` has a tf.TensorSpec, or a tuple of them, for each argument of
    `function`; `options` are arguments of tf.function.
    """
    graph = tf.function(
        function, input_signature=signature, autograph=False, **options
    )
    # tf.function warns of retracing when threads wait for a trace.
    concrete_function = functools.cache(graph.get_concrete_function)
    return lambda *arguments: concrete_function()(*arguments)


def disable_ynnpack() -> None:
    """Makes XLA compute matrix products with Eigen, not with YNNPACK.

    For the 4 rows of a beam YNNPACK takes 1.5 times as long
    (docs/measured/decoding.md). XLA reads XLA_FLAGS at the first compilation; a
    choice of the user in it is kept.
    """
    # XLA ends the process for an unknown flag.
    if not tf.__version__.startswith("2.21."):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if _YNNPACK_FLAG not in flags:
        flags += f" {_YNNPACK_FLAG}=LIBRARY_FUSION_TYPE_INVALID"
        os.environ["XLA_FLAGS"] = flags.strip()
