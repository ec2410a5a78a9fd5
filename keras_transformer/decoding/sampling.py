"""Sampling translations from a model's distribution.

Random numbers are hashes of a sentence's seed, the sample and the step: with
`keras.random`, which has one seed per call, they would depend on the batch.
"""

import dataclasses
import math
import typing

from keras import ops

from keras_transformer.config import (
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    SMALLEST_FLOAT,
)
from keras_transformer.decoding.beam_search import last_tokens
from keras_transformer.decoding.search_config import (
    clip_lengths,
    validate_ranges_and_tokens,
)
from keras_transformer.decoding.translate import output_limits
from keras_transformer.ids import arange
from keras_transformer.types import Tensor, TensorLike, TransformerLike


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
    """Sampling options; values out of range raise ValueError.

    Attributes:
        samples: N, number of translations per sentence.
        temperature: divides logits, above 0; near 0 is greedy.
        top_k: sample from the k most likely tokens; 0 for all.
        top_p: sample from the most likely tokens that together have this
            probability (Holtzman et al. 2020), after `top_k` and temperature.
        suppress_tokens: ids that are never sampled.
    """

    samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    suppress_tokens: tuple[int, ...] = FORBIDDEN_IDS

    def __post_init__(self):
        validate_ranges_and_tokens(
            self,
            samples=(1, 1_000_000),
            temperature=(SMALLEST_FLOAT, None),
            top_k=(0, None),
            top_p=(SMALLEST_FLOAT, 1.0),
        )


class SamplingResult(typing.NamedTuple):
    """Sampled translations and their unmodified log-probabilities.

    Attributes:
        tokens: int32 [B, N, T], ending with the end id, then padding.
        log_probs: float32 [B, N].
    """

    tokens: Tensor
    log_probs: Tensor


class _SamplingState(typing.NamedTuple):
    index: Tensor  # int32 scalar, tokens sampled so far
    tokens: Tensor  # int32 [B, N, T]
    log_probs: Tensor  # float32 [B, N]
    finished: Tensor  # boolean [B, N]
    decoder_state: typing.Any  # DecoderState, with N beams


def sample_ids(
    model: TransformerLike,
    source: TensorLike,
    max_length: int | Tensor,
    seeds: Tensor,
    config: SamplingConfig | None = None,
    max_lengths: TensorLike | None = None,
) -> SamplingResult:
    """Samples translations of a batch; returns a SamplingResult.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each row ending with the end id, then padding.
        max_length: T, capacity for output tokens: an int or int32 scalar.
        seeds: int32 [B]; a sentence's samples depend on its own seed only.
        config: SamplingConfig; None for its defaults.
        max_lengths: int32 [B]; None for source lengths + `max_extra_tokens`.
    """
    config = config or SamplingConfig()
    decoder = model.beam_decoder(config.samples)
    if max_lengths is None:
        max_lengths = output_limits(source, model.config.max_extra_tokens)
    max_lengths = clip_lengths("max_lengths", max_lengths, max_length)
    shape = (ops.shape(max_lengths)[0], config.samples)
    sample_indices = ops.broadcast_to(arange(config.samples), shape)

    def is_running(sampling):
        return (sampling.index < max_length) & ~ops.all(sampling.finished)

    def advance(sampling):
        index = sampling.index
        last = last_tokens(sampling.tokens, index)
        # Each sample continues itself.
        logits, decoder_state = decoder.step(
            last, sample_indices, index, sampling.decoder_state
        )
        logits = ops.cast(logits, "float32")
        noise = hash_to_uniform(seeds[:, None], sample_indices, index)
        tokens = _sample_tokens(logits, noise, config)
        at_limit = (index + 1 >= max_lengths)[:, None]
        tokens = ops.where(at_limit, END_ID, tokens)
        log_probs = ops.take_along_axis(logits, tokens[..., None], axis=-1)
        log_probs = log_probs[..., 0] - ops.logsumexp(logits, axis=-1)
        log_probs = ops.where(sampling.finished, 0.0, log_probs)
        newest = arange(max_length) == index
        new_ids = ops.where(sampling.finished, PAD_ID, tokens)
        return (
            _SamplingState(
                index=index + 1,
                tokens=ops.where(newest, new_ids[..., None], sampling.tokens),
                log_probs=sampling.log_probs + log_probs,
                finished=sampling.finished | (tokens == END_ID),
                decoder_state=decoder_state,
            ),
        )

    start = _SamplingState(
        index=ops.convert_to_tensor(0, "int32"),
        tokens=ops.full((*shape, max_length), PAD_ID, dtype="int32"),
        log_probs=ops.zeros(shape, dtype="float32"),
        finished=ops.zeros(shape, dtype="bool"),
        decoder_state=decoder.start(source, max_length),
    )
    (sampling,) = ops.while_loop(is_running, advance, (start,))
    return SamplingResult(sampling.tokens, sampling.log_probs)


def _sample_tokens(logits, uniform_noise, config):
    """Samples int32 [B, N] by inverse transform of noise in [0, 1)."""
    vocabulary = logits.shape[-1]
    ids = arange(vocabulary)
    for token in config.suppress_tokens:
        logits = ops.where(ids == token, -math.inf, logits)
    top_k = min(config.top_k or vocabulary, vocabulary)
    values, tokens = ops.top_k(logits, top_k)
    if top_k == 1:
        return ops.cast(tokens[..., 0], "int32")
    # The highest value becomes 0; others may become -inf and are never sampled.
    values = (values - values[..., :1]) / config.temperature
    probabilities = ops.softmax(values, axis=-1)
    total_before = ops.cumsum(probabilities, axis=-1) - probabilities
    in_nucleus = total_before < config.top_p
    probabilities = ops.where(in_nucleus, probabilities, 0.0)
    cumulative = ops.cumsum(probabilities, axis=-1)
    is_passed = cumulative <= uniform_noise[..., None] * cumulative[..., -1:]
    rank = ops.sum(ops.cast(is_passed, "int32"), axis=-1)
    # Rounding must not select past the last token of the distribution.
    num_allowed = ops.sum(ops.cast(probabilities > 0, "int32"), axis=-1)
    rank = ops.minimum(rank, num_allowed - 1)
    sampled = ops.take_along_axis(tokens, rank[..., None], axis=-1)
    return ops.cast(sampled[..., 0], "int32")


def hash_to_uniform(*integers: TensorLike) -> Tensor:
    """Hashes int32 tensors to uniform float32 multiples of 2^-24 in [0, 1)."""
    bits = 0
    for each in integers:
        bits = _hash(ops.cast(each, "uint32") + bits)
    return ops.cast(_shift_bits(bits, 8), "float32") * 2.0**-24


def _hash(bits):
    """Mixes 32 bits with Chris Wellons' "lowbias32" (2018, public domain)."""
    bits = ops.bitwise_xor(bits, _shift_bits(bits, 16))
    bits = bits * ops.convert_to_tensor(0x7FEB352D, "uint32")
    bits = ops.bitwise_xor(bits, _shift_bits(bits, 15))
    bits = bits * ops.convert_to_tensor(0x846CA68B, "uint32")
    return ops.bitwise_xor(bits, _shift_bits(bits, 16))


def _shift_bits(bits, count):
    return ops.right_shift(bits, ops.convert_to_tensor(count, "uint32"))
