"""Translation of token ids: a decoder with caches, and its beam searches.

Letters: B sentences, S source length, T output length, K beams, V vocabulary.
"""

import functools
import typing

from keras import ops, tree

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.alignment import TracingDecoder
from keras_transformer.decoding.beam_search import (
    is_running,
    run_search,
    shift_right,
    start_search,
)
from keras_transformer.decoding.candidates import gather_beams
from keras_transformer.decoding.search_config import (
    BeamSearchConfig,
    Constraints,
)
from keras_transformer.ids import arange
from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.masks import padding_mask
from keras_transformer.loss import LabelSmoothedCrossEntropy

# Maximum number of steps between removals of stopped sentences: few, so that
# steps read few unfilled slots, but enough to make copying caches cheap.
_SEGMENT_STEPS = 8

# Cost of removing sentences from the batch, in steps of the whole batch; the
# fastest value at 8, 32 and 96 sentences.
_REMOVAL_COST = 0.5

# Capacities of the loops before the last, in which most sentences end.
_BUCKETS = (32, 64)


class DecoderState(typing.NamedTuple):
    """State between decoding steps; the first axis is the sentence.

    `ancestry` [b, k, t, j] is True if beam k's hypothesis contains the token of
    beam j at cache step t.
    """

    cross_attention_caches: typing.Any  # keys and values of each layer
    memory_mask: typing.Any  # boolean [B, 1, S]
    self_attention_caches: typing.Any  # KVCache of each layer, never reordered
    ancestry: typing.Any  # boolean [B, K, cache length, K]
    output: typing.Any = ()  # from `prepare` of the output layer
    target_language: typing.Any = ()  # int32 [B, 1], see `target_language`


class FullOutputLayer:
    """Logits of the whole vocabulary; transposes the matrix only once.

    The output layers of an `OutputVocabulary` also have a state and local ids.
    """

    def __init__(self, embedding):
        self._embedding = embedding
        self._projection = embedding.projection()

    def prepare(self, source):
        """Returns the state for each sentence: none."""
        return ()

    def to_vocabulary_ids(self, tokens, prepared):
        """Returns the vocabulary ids of int32 [B, K] tokens: the same."""
        return tokens

    def logits(self, states, prepared):
        """Returns logits, float32 [B, K, V], for states, float [B, K, D]."""
        return self._embedding.logits(states, self._projection)


class BeamDecoder:
    """Decodes the K = `beam_size` beams of each sentence step by step.

    The encoder's output and the cross-attention keys and values are computed
    once per sentence for all K queries. Self-attention attends to the slots of
    all beams under a mask that selects each beam's own past, so caches are
    written in place and never reordered. Restricted self-attention needs only
    the slots of one window, which are overwritten.
    """

    def __init__(self, model, beam_size, cache=KVCache, output_layer=None):
        self.beam_size = beam_size
        self.cache_class = cache
        self._model = model
        self._output_layer = output_layer or FullOutputLayer(
            model.output_embedding
        )

    def start(self, source, capacity, memory=None):
        """Returns the DecoderState before the first step.

        `capacity` is the number of steps to allocate, an int or int32 scalar;
        an int beyond the learned positions raises ValueError. `memory` is
        `model.encode(source)`, if already computed.
        """
        self._validate_capacity(capacity)
        if memory is None:
            memory = self._model.encode(source)
        beams, batch = self.beam_size, ops.shape(source)[0]
        decoder = self._model.decoder
        length = decoder.cache_length(capacity)
        return DecoderState(
            cross_attention_caches=decoder.project_memory(memory),
            memory_mask=padding_mask(source),
            self_attention_caches=decoder.initial_caches(
                batch, capacity, beams, self.cache_class
            ),
            ancestry=ops.zeros((batch, beams, length, beams), dtype="bool"),
            output=self._output_layer.prepare(source),
        )

    def step(
        self, tokens, parents, index, state, return_attention_scores=False
    ):
        """Decodes the newest token of each beam; see `beam_search`.

        Returns logits, float32 [B, K, V], and the DecoderState; if requested
        also the cross-attention, a list of N float32 [B, H, K, S].
        """
        batch, beams, length, _ = ops.shape(state.ancestry)
        # With a window, steps reuse slots, as in the caches (`Decoder.call`).
        ancestry = update_ancestry(state.ancestry, parents, index % length)
        ids = self._output_layer.to_vocabulary_ids(tokens, state.output)
        positions = ops.reshape(ops.cast(index, "int32"), (1, 1))
        embedded, state = self._embed(ids, positions, parents, state)
        hidden_states, _, scores, caches = self._model.decoder(
            embedded,
            attention_mask=ops.reshape(
                ancestry, (batch, beams, length * self.beam_size)
            ),
            memory_mask=state.memory_mask,
            self_attention_caches=state.self_attention_caches,
            cross_attention_caches=state.cross_attention_caches,
            cache_update_index=index,
        )
        state = state._replace(
            self_attention_caches=tuple(caches), ancestry=ancestry
        )
        logits = self._output_layer.logits(hidden_states, state.output)
        if return_attention_scores:
            return logits, state, scores
        return logits, state

    def _embed(self, ids, positions, parents, state):
        """Returns the decoder's input and the state; subclasses change it."""
        return self._model.embed_target(ids, positions), state

    def extend_cache(self, state, capacity):
        """Returns the state with capacity for more steps; see `start`."""
        self._validate_capacity(capacity)
        length = self._model.decoder.cache_length(capacity)
        added = length - ops.shape(state.ancestry)[2]
        caches = tree.map_structure(
            lambda cache: _pad_steps(cache, added), state.self_attention_caches
        )
        return state._replace(
            self_attention_caches=caches,
            ancestry=_pad_steps(state.ancestry, added),
        )

    def _validate_capacity(self, capacity):
        config = self._model.config
        if config.positions != "learned" or not isinstance(capacity, int):
            return
        if capacity > config.max_positions:
            raise ValueError(
                f"max_length must be at most {config.max_positions}, the "
                f"model's max_positions, not {capacity}."
            )


def update_ancestry(ancestry, parents, cache_index):
    """Gives each beam its parent's past and its own newest slot."""
    inherited = gather_beams(ancestry, parents)
    newest = arange(ops.shape(ancestry)[2]) == cache_index
    own = ops.eye(ancestry.shape[-1], dtype="bool")[None, :, None, :]
    return ops.where(newest[None, None, :, None], own, inherited)


def _pad_steps(values, count):
    """Appends `count` zeros on axis 2."""
    before, after = ops.shape(values)[:2], ops.shape(values)[3:]
    empty = ops.zeros((*before, count, *after), dtype=values.dtype)
    return ops.concatenate([values, empty], axis=2)


def translate_ids(
    model,
    source,
    max_length=None,
    constraints=None,
    config=None,
    *,
    shrink_batch=False,
    trace_alignments=False,
    decoder=None,
    memory=None,
    cache=KVCache,
):
    """Translates a batch by beam search.

    By default the search runs in loops of fixed shapes, which XLA can compile,
    with caches of 32, 64 and T steps; in one loop if T is a tensor.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each row ending with the end id, then padding.
        max_length: T, capacity for output tokens, an int or int32 scalar;
            None for `output_capacity`.
        constraints: Constraints, or just their `max_lengths`; None for
            `output_limits`.
        config: BeamSearchConfig; None for that of the model.
        shrink_batch: whether to run in segments of a few steps, and to remove
            stopped sentences and extend caches between them: faster, but only
            in a TensorFlow graph with an unknown number of sentences.
        trace_alignments: whether to return an AlignmentTrace for
            `gather_alignments`.
        decoder: `model.beam_decoder(K)`, for reuse: outside a compiled function
            it transposes the output matrix only once.
        memory: `model.encode(source)`, if already computed.
        cache: the class of the decoder's caches, KVCache or a subclass.

    Returns:
        BeamSearchResult: tokens [B, K, T], scores [B, K], and as its state the
        AlignmentTrace or ().
    """
    config = config or BeamSearchConfig.from_config(
        model.config, num_given_tokens=model.num_given_tokens
    )
    extra = config.max_extra_tokens
    if max_length is None:
        max_length = output_capacity(source, model.config, extra)
    if constraints is None:
        constraints = Constraints(output_limits(source, extra))
    decoder = decoder or model.beam_decoder(config.beam_size, cache)
    if trace_alignments:
        decoder = TracingDecoder(decoder, max_length, model.alignment)
    capacities = [max_length]
    if shrink_batch:
        capacities = [ops.minimum(_SEGMENT_STEPS, max_length)]
    elif isinstance(max_length, int):
        buckets = [bucket for bucket in _BUCKETS if bucket < max_length]
        capacities = [*buckets, max_length]
    decoder_state = decoder.start(source, capacities[0], memory)
    search = start_search(config, constraints, max_length, decoder_state)
    run = functools.partial(run_search, decoder.step, config=config)

    def to_result(search):
        if not trace_alignments:
            return search.result(())
        _, trace = search.step_state  # of the TracingDecoder
        return search.result(trace)

    if not shrink_batch:
        for index, capacity in enumerate(capacities):
            if index:
                search = _extend_search(decoder, search, capacity)
            search = run(
                search, functools.partial(is_running, capacity=capacity)
            )
        return to_result(search)

    def run_segment(result, rows, search):
        capacity = ops.minimum(search.index + _SEGMENT_STEPS, max_length)
        condition = functools.partial(_continue_segment, capacity=capacity)
        search = run(search, condition)
        result = tree.map_structure(
            lambda old, new: ops.scatter_update(old, rows[:, None], new),
            result,
            to_result(search),
        )
        (running,) = ops.nonzero(~search.stopped)
        running = ops.cast(running, "int32")
        search = _select_sentences(search, running)
        next_capacity = ops.minimum(search.index + _SEGMENT_STEPS, max_length)
        search = _extend_search(decoder, search, next_capacity)
        return result, ops.take(rows, running), search

    result, _, _ = ops.while_loop(
        lambda result, rows, search: is_running(search, max_length),
        run_segment,
        (to_result(search), arange(ops.shape(search.stopped)[0]), search),
    )
    return result


def _extend_search(decoder, search, capacity):
    decoder_state = decoder.extend_cache(search.step_state, capacity)
    return search._replace(step_state=decoder_state)


def _continue_segment(search, capacity):
    """Returns whether to run another step before removing sentences.

    False if stopped sentences would cost more steps up to `capacity` than their
    removal now.
    """
    share_stopped = ops.mean(ops.cast(search.stopped, "float32"))
    wasted = share_stopped * ops.cast(capacity - search.index, "float32")
    return is_running(search, capacity) & (wasted <= _REMOVAL_COST)


def _select_sentences(search, rows):
    """Selects the sentences at int32 [n] rows."""
    # All but the index, a scalar, which () hides from `map_structure`.
    per_sentence = search._replace(index=())
    selected = tree.map_structure(
        lambda tensor: ops.take(tensor, rows, axis=0), per_sentence
    )
    return selected._replace(index=search.index)


def output_limits(source, extra_tokens):
    """Returns the maximum lengths of outputs, int32 [B].

    That is max(source length without the end id + extra, 1), and 1 for blank
    sources.
    """
    non_padding = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    lengths = ops.sum(non_padding, axis=1) - 1
    return ops.where(lengths > 0, ops.maximum(lengths + extra_tokens, 1), 1)


def output_capacity(source, config, extra_tokens=None):
    """Returns T, the capacity for output tokens: S + extra tokens.

    It is at most the number of learned positions; an int, or an int32 scalar if
    S is unknown. The default is the config's `max_extra_tokens`.
    """
    if extra_tokens is None:
        extra_tokens = config.max_extra_tokens
    capacity = ops.shape(source)[1] + extra_tokens
    if config.positions != "learned":
        return capacity
    minimum = min if isinstance(capacity, int) else ops.minimum
    return minimum(capacity, config.max_positions)


def score_ids(model, source, target):
    """Returns the log-probabilities of given translations: float32 [B].

    For the ids see `force_align`; the end id is scored too.
    """
    return ops.sum(token_log_probs(model, source, target), axis=1)


def token_log_probs(model, source, target):
    """Returns the log-probability of each token, float32 [B, T]; 0 if padding.

    See `score_ids`, which returns their sums.
    """
    logits = model({"source": source, "target": shift_right(target)})
    losses = LabelSmoothedCrossEntropy(0.0).token_losses(target, logits)
    return -losses.plain
