"""Drawing translations from a model's distribution."""

import dataclasses
import math
import sys
import typing

import numpy as np
from keras import ops

from keras_transformer.config import BEGIN_ID, END_ID, FORBIDDEN_IDS, PAD_ID
from keras_transformer.decoding.rules import (
    check_range,
    check_suppressed,
    lengths,
)
from keras_transformer.decoding.translate import output_limits


def uniform(*coordinates):
    """Returns numbers in [0, 1), each a hash of its coordinates.

    Args:
        *coordinates: int32, broadcastable to one another.

    Returns:
        float32 of the shape they broadcast to, multiples of 2 ** -24.
    """
    mixed = 0
    for each in coordinates:
        mixed = _mix(ops.cast(each, "uint32") + mixed)
    return ops.cast(_shifted_right(mixed, 8), "float32") * 2.0**-24


def _mix(bits):
    """Scatters 32 bits: two rounds of xor, shift and multiply.

    The constants are Chris Wellons' "lowbias32" (2018, public domain), found
    by search for the least bias.
    """
    bits = ops.bitwise_xor(bits, _shifted_right(bits, 16))
    bits = bits * ops.convert_to_tensor(0x7FEB352D, "uint32")
    bits = ops.bitwise_xor(bits, _shifted_right(bits, 15))
    bits = bits * ops.convert_to_tensor(0x846CA68B, "uint32")
    return ops.bitwise_xor(bits, _shifted_right(bits, 16))


def _shifted_right(bits, by):
    return ops.right_shift(bits, ops.convert_to_tensor(by, "uint32"))


class SamplingResult(typing.NamedTuple):
    """Translations that were drawn.

    Attributes:
        tokens: int32 [B, N, T], ending with the end id, then padding.
        log_probs: float32 [B, N], each one's log-probability under the model
            itself, whatever temperature and cuts it was drawn with.
    """

    tokens: typing.Any
    log_probs: typing.Any


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
    """How tokens are drawn.

    Attributes:
        samples: N, how many translations of each sentence.
        temperature: logits are divided by it; near 0 is greedy, above 0.
        top_k: only the k likeliest tokens are drawn; 0 for all.
        top_p: only the likeliest tokens that together have this probability
            are drawn (Holtzman et al. 2020), after `top_k` and temperature.
        never: ids that are not drawn.

    Raises:
        ValueError: a value is out of range.
    """

    samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    never: tuple[int, ...] = ()

    def __post_init__(self):
        check_range(self, "samples", 1, 1_000_000)
        check_range(self, "temperature", math.ulp(0.0), sys.float_info.max)
        check_range(self, "top_k", 0, sys.maxsize)
        check_range(self, "top_p", math.ulp(0.0), 1.0)
        check_suppressed(self)


class _Drawing(typing.NamedTuple):
    index: typing.Any
    tokens: typing.Any
    log_probs: typing.Any
    ended: typing.Any
    state: typing.Any


def sample(step, state, max_lengths, max_length, seeds, rules=None):
    """Draws translations token by token.

    A sentence's samples depend on its own seed alone: not on its neighbours
    in the batch, nor on padding.

    Letters: B sentences, N samples, V vocabulary, T max_length.

    Args:
        step: as for `beam_search`, with N beams, each its own parent.
        state: what `step` carries along.
        max_lengths: int32 [B], at most `max_length`: at this length, the end
            id counted, a sample can only end.
        max_length: T, a number or an int32 scalar.
        seeds: int32 [B].
        rules: SamplingConfig; None for the model's own distribution.

    Returns:
        Samples.
    """
    rules = rules or SamplingConfig()
    max_lengths = lengths("max_lengths", max_lengths, max_length)
    batch = ops.shape(max_lengths)[0]
    shape = (batch, rules.samples)
    numbers = ops.broadcast_to(ops.arange(rules.samples), shape)

    def unfinished(drawing):
        going = ops.logical_not(ops.all(drawing.ended))
        return ops.logical_and(drawing.index < max_length, going)

    def advance(drawing):
        index = drawing.index
        last = ops.take(drawing.tokens, ops.maximum(index - 1, 0), axis=2)
        last = ops.where(index > 0, last, BEGIN_ID)
        logits, state = step(last, numbers, index, drawing.state)
        logits = ops.cast(logits, "float32")
        chance = uniform(seeds[:, None], numbers, index)
        tokens = _draw(logits, chance, rules)
        at_limit = (index + 1 >= max_lengths)[:, None]
        tokens = ops.where(at_limit, END_ID, tokens)
        log_probs = ops.take_along_axis(logits, tokens[..., None], axis=-1)
        log_probs = log_probs[..., 0] - ops.logsumexp(logits, axis=-1)
        here = ops.arange(max_length) == index
        shown = ops.where(drawing.ended, PAD_ID, tokens)
        return (
            _Drawing(
                index=index + 1,
                tokens=ops.where(here, shown[..., None], drawing.tokens),
                log_probs=drawing.log_probs
                + ops.where(drawing.ended, 0.0, log_probs),
                ended=ops.logical_or(drawing.ended, tokens == END_ID),
                state=state,
            ),
        )

    begin = _Drawing(
        index=ops.convert_to_tensor(0, "int32"),
        tokens=ops.full((*shape, max_length), PAD_ID, dtype="int32"),
        log_probs=ops.zeros(shape, dtype="float32"),
        ended=ops.zeros(shape, dtype="bool"),
        state=state,
    )
    (drawing,) = ops.while_loop(unfinished, advance, (begin,))
    return SamplingResult(drawing.tokens, drawing.log_probs)


def _in_float32(number):
    """Returns what float32 has for it and its reciprocal, neither 0."""
    tiny = np.finfo("float32").tiny
    return float(np.clip(number, tiny, 1 / tiny))


def _draw(logits, chance, rules):
    """Returns the tokens [B, N] that the chances in [0, 1) fall upon."""
    vocabulary = logits.shape[-1]
    places = ops.arange(vocabulary)
    for number in rules.never:
        logits = ops.where(places == number, -math.inf, logits)
    kept = min(rules.top_k or vocabulary, vocabulary)
    values, tokens = ops.top_k(logits, kept)
    if kept == 1:
        return ops.cast(tokens[..., 0], "int32")
    # Of the highest, which becomes 0, others may fall to -inf: never drawn.
    values = (values - values[..., :1]) / _in_float32(rules.temperature)
    probabilities = ops.softmax(values, axis=-1)
    below = ops.cumsum(probabilities, axis=-1) - probabilities
    likely = below < _in_float32(rules.top_p)
    probabilities = ops.where(likely, probabilities, 0.0)
    reached = ops.cumsum(probabilities, axis=-1)
    passed = reached <= (chance[..., None] * reached[..., -1:])
    # Rounding must not lead beyond the last token that may be drawn.
    allowed = ops.sum(ops.cast(probabilities > 0, "int32"), axis=-1)
    order = ops.sum(ops.cast(passed, "int32"), axis=-1)
    order = ops.minimum(order, allowed - 1)
    drawn = ops.take_along_axis(tokens, order[..., None], axis=-1)
    return ops.cast(drawn[..., 0], "int32")


def sample_ids(model, source, max_length, seeds, rules=None, max_lengths=None):
    """Draws translations of a batch.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each sentence ending with the end id, then
            padding.
        max_length: T, capacity for output tokens: a number or int32 scalar.
        seeds: int32 [B]; a sentence's samples depend on its own alone.
        rules: SamplingConfig; by default one sample of the model's own
            distribution.
        max_lengths: int32 [B], of each sentence, the end id counted; by
            default its length without its end id + `config.max_output_extra`.

    Returns:
        Samples: tokens [B, N, T] and log_probs [B, N].
    """
    rules = rules or SamplingConfig()
    rules = dataclasses.replace(rules, never=FORBIDDEN_IDS + rules.never)
    decoder = model.beam_decoder(rules.samples)
    if max_lengths is None:
        max_lengths = output_limits(source, model.config.max_output_extra)
    return sample(
        decoder.step,
        decoder.start(source, max_length),
        max_lengths,
        max_length,
        seeds,
        rules,
    )
