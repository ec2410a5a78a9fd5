"""A Transformer as the step function that beam search asks for."""

import typing

from keras import ops

from keras_transformer.beam_search import beam_search
from keras_transformer.special_ids import BEGIN_ID, PAD_ID, UNKNOWN_ID
from keras_transformer.transformer import padding_mask

# No translation holds these: padding would look like an end, and an unknown
# piece is nothing that a reader can use.
_NEVER_SAID = (PAD_ID, UNKNOWN_ID, BEGIN_ID)


class BeamState(typing.NamedTuple):
    """What decoding carries from step to step.

    Attributes:
        caches: each decoder layer's keys and values, in the order they were
            written; they are never re-ordered.
        ancestry: boolean [B, K, steps, K]; [b, k, t, j] says that beam k's
            hypothesis went through beam j at step t.
    """

    caches: typing.Any
    ancestry: typing.Any


def translate_ids(model, source, max_length, max_lengths=None):
    """Translates with the beam, penalty and limits of the model's config.

    Args:
        model: Transformer.
        source: int32 [B, S], each sentence ending with the end id, then
            padding.
        max_length: T, room for output tokens: a number or int32 scalar.
        max_lengths: int32 [B]; by default each sentence's length without its
            end id + `config.max_output_extra`, and at most `max_length`.

    Returns:
        BeamSearchResult: tokens [B, K, T] and scores [B, K].
    """
    config = model.config
    if max_lengths is None:
        max_lengths = output_limits(source, config.max_output_extra)
        max_lengths = ops.minimum(max_lengths, max_length)
    step, state = beam_step(model, source, config.beam_size, max_length)
    return beam_search(
        step,
        state,
        max_lengths,
        max_length,
        beam_size=config.beam_size,
        alpha=config.alpha,
        length_penalty=config.length_penalty,
        never=_NEVER_SAID,
    )


def output_limits(source, extra):
    """Returns int32 [B]: tokens of each source, end id aside, + `extra`.

    Never below 1, for a row of padding.
    """
    real = ops.cast(ops.not_equal(source, PAD_ID), "int32")
    return ops.maximum(ops.sum(real, axis=1) - 1 + extra, 1)


def output_room(source, config):
    """Returns T, the room that every output of a batch fits in.

    Args:
        source: int32 [B, S].
        config: TransformerConfig.

    Returns:
        S + `config.max_output_extra`, and no more than there are learned
        positions; a number, or an int32 scalar where S is not known.
    """
    room = ops.shape(source)[1] + config.max_output_extra
    if config.positions == "learned":
        return ops.minimum(room, config.max_positions)
    return room


def beam_step(model, source, beam_size, max_length):
    """Encodes the source once and returns how to decode it step by step.

    The encoder's output and the cross-attention keys and values are made
    once per sentence; the K beams are K queries on them. Self-attention
    looks at the slots of all beams through a mask that says whose past each
    slot is, so caches are written in place and never re-ordered.

    Args:
        model: Transformer.
        source: int32 [B, S].
        beam_size: K.
        max_length: steps there is room for: a number or int32 scalar.

    Raises:
        ValueError: `max_length` is a number beyond the learned positions.

    Returns:
        `step` and the first `state`, as `beam_search` takes them.
    """
    config = model.config
    table = config.max_positions if config.positions == "learned" else None
    if table and isinstance(max_length, int) and max_length > table:
        raise ValueError(
            f"max_length={max_length} does not fit the learned table of "
            f"max_positions={table}; give a smaller max_length."
        )
    batch = ops.shape(source)[0]
    memory = model.decoder.project_memory(model.encode(source))
    memory_mask = padding_mask(source)

    def step(tokens, parents, index, state):
        ancestry = _descend(state.ancestry, parents, index, beam_size)
        visible = _within_window(ancestry, index, config.attention_window)
        logits, caches, _ = model.decode_step(
            tokens,
            index,
            state.caches,
            ops.reshape(visible, (batch, beam_size, max_length * beam_size)),
            memory,
            memory_mask,
        )
        return logits, BeamState(caches, ancestry)

    state = BeamState(
        caches=model.decoder.empty_caches(batch, max_length, beam_size),
        ancestry=ops.zeros(
            (batch, beam_size, max_length, beam_size), dtype="bool"
        ),
    )
    return step, state


def _descend(ancestry, parents, index, beam_size):
    """Each beam takes over its parent's past and adds its own slot."""
    inherited = ops.take_along_axis(ancestry, parents[:, :, None, None], axis=1)
    now = ops.arange(ops.shape(ancestry)[2]) == index
    own = ops.eye(beam_size, dtype="bool")[None, :, None, :]
    return ops.where(now[None, None, :, None], own, inherited)


def _within_window(ancestry, index, window):
    """Restricted self-attention sees the latest `window` steps and its own."""
    if not window:
        return ancestry
    near = index - ops.arange(ops.shape(ancestry)[2]) <= window
    return ops.logical_and(ancestry, near[None, None, :, None])
