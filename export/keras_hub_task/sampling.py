"""Sampling of translations by KerasHub's samplers."""

import typing
from collections.abc import Mapping, Sequence

from keras import ops

from export.keras_hub_task.backbone import mask_ids
from keras_transformer.config import END_ID, FORBIDDEN_IDS, PAD_ID
from keras_transformer.decoding.translate import output_limits
from keras_transformer.ids import arange
from keras_transformer.types import Tensor, TensorLike, TransformerLike

if typing.TYPE_CHECKING:
    from export.keras_hub_task.task import TransformerSeq2SeqLM

# Logit of an excluded token; finite, because samplers apply a softmax.
_EXCLUDED_LOGIT = -1e9


def sample_translations(
    task: "TransformerSeq2SeqLM",
    model: TransformerLike,
    inputs: Mapping[str, TensorLike],
    stop_token_ids: Sequence[int] | None,
) -> tuple[Tensor, Tensor]:
    """Samples a translation of each sentence with KerasHub's sampler.

    As in the beam search, a translation has at most `max_extra_tokens` tokens
    more than its source, and blank text has none. For the arguments see
    `TranslationSearch.search`; `index` of samplers and the functions below is
    the position of the next token, 0 for the begin id. Returns ids, int32
    [B, T], and a boolean mask [B, T] of the translation and its end.
    """
    prompt = mask_ids(inputs, "decoder")
    prompt_mask = ops.cast(inputs["decoder_padding_mask"], "bool")
    source = mask_ids(inputs, "encoder")
    decoder = model.beam_decoder(1)
    # After the shortest prefix; samplers repeat the rest of longer ones.
    first_index = ops.min(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))
    state = decoder.start(source, ops.shape(prompt)[1])
    state = _decode_prompt(decoder, state, prompt, first_index)
    has_text = ops.any((source != PAD_ID) & (source != END_ID), axis=1)
    max_lengths = output_limits(source, model.config.max_extra_tokens)
    # Lengths do not count the begin id.
    max_lengths = ops.minimum(max_lengths, ops.shape(prompt)[1] - 1)

    def next_logits(tokens, cache, index):
        # The beam sampler repeats each row of the cache, so also each limit.
        row_state, row_limits = cache
        logits, row_state = _decode_step(decoder, row_state, tokens, index)
        logits = _exclude_impossible(logits[:, 0], index, row_limits)
        # None: hidden states, which only the contrastive sampler reads.
        return logits, None, (row_state, row_limits)

    ids = task.sampler(
        next=next_logits,
        prompt=prompt,
        cache=(state, max_lengths),
        index=first_index,
        mask=prompt_mask,
        stop_token_ids=stop_token_ids,
        model=task,
    )
    mask = _mask_until_stop(ids, prompt_mask, stop_token_ids)
    is_begin = arange(ops.shape(ids)[1]) == 0
    # Blank text has the begin id alone.
    return ids, mask & (has_text[:, None] | is_begin)


def _decode_step(decoder, state, tokens, index):
    """Returns the logits of the next token, [B, 1, V], and the new state."""
    rows, step = ops.shape(tokens)[0], index - 1
    newest = ops.slice(tokens, (0, step), (rows, 1))
    parents = ops.zeros((rows, 1), dtype="int32")
    return decoder.step(newest, parents, step, state)


def _decode_prompt(decoder, state, prompt, index):
    """Returns the state before the step that predicts the token at `index`."""

    def decode_token(prompt_index, state):
        return _decode_step(decoder, state, prompt, prompt_index)[1]

    return ops.fori_loop(1, index, decode_token, state)


def _exclude_impossible(logits, index, max_lengths):
    """Excludes special ids, a first end, and at the limit all but the end."""
    ids = arange(ops.shape(logits)[-1])
    is_end = ids == END_ID
    excluded = _is_any_of(ids, FORBIDDEN_IDS) | (is_end & (index == 1))
    at_limit = ops.expand_dims(index >= max_lengths, 1)
    excluded = ops.where(at_limit, ~is_end, excluded)
    return ops.where(excluded, _EXCLUDED_LOGIT, logits)


def _mask_until_stop(ids, prompt_mask, stop_token_ids):
    """Returns a mask of the ids up to the first stop after the prompt."""
    if stop_token_ids is None:
        return ops.ones_like(ids, dtype="bool")
    is_stop = ops.cast(_is_any_of(ids, stop_token_ids) & ~prompt_mask, "int32")
    stops_before = ops.cumsum(is_stop, axis=-1) - is_stop
    return (stops_before == 0) & (ids != PAD_ID)


def _is_any_of(ids, candidates):
    candidates = ops.convert_to_tensor(candidates, dtype=ids.dtype)
    return ops.any(ops.expand_dims(ids, -1) == candidates, axis=-1)
