"""Translation and scoring of token ids."""

from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.alignment import TracingDecoder, shift_right
from keras_transformer.decoding.beam_search import (
    bucketed_beam_search,
    shrinking_batch_beam_search,
)
from keras_transformer.decoding.search_config import (
    BeamSearchConfig,
    Constraints,
)
from keras_transformer.layers.attention import KVCache
from keras_transformer.loss import LabelSmoothedCrossEntropy

# Maximum number of steps between removals of finished sentences: few, so that
# steps read few unfilled slots, but enough to make copying caches cheap.
_SEGMENT = 8

# Capacities of the loops before the last. Most sentences end in them; each adds
# one loop to compile.
_BUCKETS = (32, 64)


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

    By default the search runs in a few loops of fixed shapes, which XLA can
    compile. With `shrink_batch` finished sentences leave the batch and caches
    grow as they fill, which is less work but needs a TensorFlow graph of open
    shapes.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each row ending with the end id, then padding.
        max_length: T, capacity for output tokens, a number or int32 scalar;
            None for `output_capacity`.
        constraints: Constraints, or just their `max_lengths`; None for each
            sentence's length without its end id + `config.max_extra_tokens`, at
            most `max_length`.
        config: BeamSearchConfig; None for that of the model.
        shrink_batch: whether finished sentences leave the batch.
        trace_alignments: whether to return an AlignmentTrace for
            `gather_alignments`.
        decoder: `model.beam_decoder(K)`, for reuse: outside a compiled function
            it transposes the output matrix only once.
        memory: `model.encode(source)`, if already computed.
        cache: KVCache, or a subclass of it, for the decoder.

    Returns:
        BeamSearchResult: tokens [B, K, T], scores [B, K], and as its state the
        AlignmentTrace or ().
    """
    config = config or BeamSearchConfig.from_config(model.config)
    extra = config.max_extra_tokens
    if max_length is None:
        max_length = output_capacity(source, model.config, extra)
    if constraints is None:
        constraints = Constraints(output_limits(source, extra))
    decoder = decoder or model.beam_decoder(config.beam_size, cache)
    if trace_alignments:
        decoder = TracingDecoder(decoder, max_length)

    def final_state(state):
        return state[1] if trace_alignments else ()

    if shrink_batch:
        return shrinking_batch_beam_search(
            decoder.step,
            decoder.start(source, ops.minimum(_SEGMENT, max_length), memory),
            constraints,
            max_length,
            config,
            _SEGMENT,
            decoder.extend_cache,
            final_state,
        )
    capacities = [max_length]
    if isinstance(max_length, int):
        capacities = [each for each in _BUCKETS if each < max_length]
        capacities.append(max_length)
    result = bucketed_beam_search(
        decoder.step,
        decoder.start(source, capacities[0], memory),
        constraints,
        capacities,
        config,
        decoder.extend_cache,
    )
    return result._replace(state=final_state(result.state))


def output_limits(source, extra):
    """Returns max(source length without end id + extra, 1): int32 [B]."""
    real = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    return ops.maximum(ops.sum(real, axis=1) - 1 + extra, 1)


def output_capacity(source, config, extra=None):
    """Returns T, the capacity for every output of a batch.

    It is S + `extra` (None for the config's `max_extra_tokens`), at most the
    number of learned positions; a number, or an int32 scalar if S is unknown.
    """
    extra = config.max_extra_tokens if extra is None else extra
    capacity = ops.shape(source)[1] + extra
    if config.positions != "learned":
        return capacity
    smaller = min if isinstance(capacity, int) else ops.minimum
    return smaller(capacity, config.max_positions)


def score_ids(model, source, target):
    """Returns the log-probability of each given translation: float32 [B].

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each row ending with the end id, then padding.
        target: int32 [B, T], in the same format; the end id is scored too.
    """
    logits = model({"source": source, "target": shift_right(target)})
    losses = LabelSmoothedCrossEntropy(0.0).token_losses(target, logits)
    return -ops.sum(losses.plain, axis=1)
