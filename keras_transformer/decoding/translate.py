"""Translation of token ids by beam search, and their log-probabilities.

Letters: B sentences, S source length, T output length, K beams, V vocabulary.
"""

import dataclasses
import functools
import typing

from keras import ops, tree

from keras_transformer.config import PAD_ID, TransformerConfig
from keras_transformer.decoding.alignment import TracingDecoder
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.beam_search import (
    BeamSearchResult,
    is_running,
    run_search,
    shift_right,
    start_search,
)
from keras_transformer.decoding.candidates import count_repetitions
from keras_transformer.decoding.ensemble import EnsembleDecoder
from keras_transformer.decoding.search_config import (
    LEAST_POSSIBLE,
    BeamSearchConfig,
    Constraints,
    is_unset,
)
from keras_transformer.ids import arange, validate_ids
from keras_transformer.layers.attention import KVCache
from keras_transformer.loss import LabelSmoothedCrossEntropy
from keras_transformer.types import Tensor, TensorLike, TransformerLike

# Maximum number of steps between removals of stopped sentences: few, so that
# steps read few unfilled slots, but enough to make copying caches cheap.
_SEGMENT_STEPS = 8

# Cost of removing sentences from the batch, in steps of the whole batch; the
# fastest value at 8, 32 and 96 sentences.
_REMOVAL_COST = 0.5

# Capacities of the loops before the last, in which most sentences end.
_BUCKETS = (32, 64)


def translate_ids(
    model: TransformerLike,
    source: TensorLike,
    max_length: int | Tensor | None = None,
    constraints: Constraints | TensorLike | None = None,
    config: BeamSearchConfig | None = None,
    *,
    shrink_batch: bool = False,
    trace_alignments: bool = False,
    decoder: BeamDecoder | EnsembleDecoder | None = None,
    memory: typing.Any = None,
    cache: type[KVCache] = KVCache,
) -> BeamSearchResult:
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
    elif isinstance(constraints, Constraints) and not is_unset(
        constraints.prefix
    ):
        # On JAX no id is known within the loop.
        validate_ids(
            constraints.prefix, model.config.vocabulary_size, "id of a prefix"
        )
    own: typing.Any = decoder or model.beam_decoder(config.beam_size, cache)
    if trace_alignments:
        own = TracingDecoder(own, max_length, model.alignment)
    search = functools.partial(
        _search_ids,
        *(own, source, max_length, constraints),
        memory=memory,
        shrink_batch=shrink_batch,
    )
    result, size = search(config), config.retry_ngram_size
    if not size:
        return result
    repeats = count_repetitions(result.tokens[:, 0], size)
    repeats = repeats > ops.maximum(count_repetitions(source, size), 1)  # [B]
    blocked = dataclasses.replace(config, no_repeat_ngram_size=size)
    second = ops.cond(
        ops.any(repeats),
        lambda: search(blocked, stopped=~repeats),
        lambda: result,
    )
    repeats = repeats & (second.scores[:, 0] > LEAST_POSSIBLE)

    def choose(second, first):
        axes = (1,) * (len(first.shape) - 1)
        return ops.where(ops.reshape(repeats, (-1, *axes)), second, first)

    return tree.map_structure(choose, second, result)


def _search_ids(
    decoder,
    source,
    max_length,
    constraints,
    config,
    memory,
    shrink_batch,
    stopped=None,
):
    """Returns the BeamSearchResult of one search; see `translate_ids`.

    Sentences that are `stopped`, boolean [B], have no result.
    """
    capacities = [max_length]
    if shrink_batch:
        capacities = [ops.minimum(_SEGMENT_STEPS, max_length)]
    elif isinstance(max_length, int):
        buckets = [bucket for bucket in _BUCKETS if bucket < max_length]
        capacities = [*buckets, max_length]
    decoder_state = decoder.start(source, capacities[0], memory)
    search = start_search(config, constraints, max_length, decoder_state)
    if stopped is not None:
        search = search._replace(stopped=stopped)
    run = functools.partial(run_search, decoder.step, config=config)

    def to_result(search):
        if not isinstance(decoder, TracingDecoder):
            return search.result(())
        _, trace = search.step_state
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


def output_limits(source: TensorLike, extra_tokens: int) -> Tensor:
    """Returns the maximum lengths of outputs, int32 [B].

    That is max(source length without the end id + extra, 1), and 1 for blank
    sources.
    """
    non_padding = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    lengths = ops.sum(non_padding, axis=1) - 1
    return ops.where(lengths > 0, ops.maximum(lengths + extra_tokens, 1), 1)


def output_capacity(
    source: TensorLike,
    config: TransformerConfig,
    extra_tokens: int | None = None,
) -> int | Tensor:
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


def score_ids(
    model: TransformerLike, source: TensorLike, target: TensorLike
) -> Tensor:
    """Returns the log-probabilities of given translations: float32 [B].

    For the ids see `force_align`; the end id is scored too.
    """
    return ops.sum(token_log_probs(model, source, target), axis=1)


def token_log_probs(
    model: TransformerLike, source: TensorLike, target: TensorLike
) -> Tensor:
    """Returns the log-probability of each token, float32 [B, T]; 0 if padding.

    See `score_ids`, which returns their sums.
    """
    logits = model({"source": source, "target": shift_right(target)})
    losses = LabelSmoothedCrossEntropy(0.0).token_losses(target, logits)
    return -losses.plain
