"""Runs KerasHub samplers on the cached decoding step of the model."""

import functools

from keras import ops

from export.keras_hub_task.backbone import mask_ids
from keras_transformer.config import END_ID, FORBIDDEN_IDS, PAD_ID
from keras_transformer.decoding.translate import output_limits

# Logit of an excluded token. Finite, because samplers apply a softmax.
_EXCLUDED = -1e9


def sample_translations(task, transformer, inputs, stop_token_ids):
    """Samples a translation of each sentence with the task's sampler.

    As in the beam search, a translation has at most `max_extra_tokens` tokens
    more than its source, and blank text gives an empty translation. `inputs`
    are those of TransformerBackbone; the decoder's ids are the prefixes of
    translations. `stop_token_ids` end a translation, or are None.

    Returns:
        Ids, int32 [B, T], and a mask, boolean [B, T], that is True for the
        translation with its end.
    """
    prompt = mask_ids(inputs, "decoder")
    prompt_mask = ops.cast(inputs["decoder_padding_mask"], "bool")
    source = mask_ids(inputs, "encoder")
    decoder = transformer.beam_decoder(1)
    # The first position at which the prefix of some sentence has ended.
    index = ops.min(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))
    state = decoder.start(source, ops.shape(prompt)[1])
    state, hidden_states = _decode_prompt(decoder, state, prompt, index)
    is_piece = ops.logical_and(source != PAD_ID, source != END_ID)
    has_text = ops.any(is_piece, axis=1)
    lengths = output_limits(source, transformer.config.max_extra_tokens)
    lengths = ops.where(has_text, lengths, 1)
    # The capacity counts the begin id.
    lengths = ops.minimum(lengths, ops.shape(prompt)[1] - 1)

    def next_logits(tokens, cache, index):
        # In the cache, because samplers that repeat rows repeat all of it.
        state, lengths = cache
        logits, state, states = _decode_step(decoder, state, tokens, index - 1)
        logits = _exclude_impossible(logits[:, 0], index, lengths)
        return logits, states[:, 0], (state, lengths)

    ids = task.sampler(
        next=next_logits,
        prompt=prompt,
        cache=(state, lengths),
        index=index,
        mask=prompt_mask,
        stop_token_ids=stop_token_ids,
        hidden_states=hidden_states,
        model=task,
    )
    mask = _mask_after_stop(ids, prompt_mask, stop_token_ids)
    begin = ops.arange(ops.shape(ids)[1]) == 0
    return ids, ops.logical_and(mask, ops.logical_or(has_text[:, None], begin))


def _decode_step(decoder, state, tokens, index):
    """Returns logits, state and hidden states of one step."""
    rows = ops.shape(tokens)[0]
    newest = ops.slice(tokens, (0, index), (rows, 1))
    parents = ops.zeros((rows, 1), dtype="int32")
    return decoder.step(
        newest, parents, index, state, return_hidden_states=True
    )


def _decode_prompt(decoder, state, prompt, index):
    """Caches the shared prompt but its last token.

    Returns the state, and the hidden states of the tokens, float [B, T, D].
    """
    rows, length = ops.shape(prompt)
    _, _, first = _decode_step(decoder, state, prompt, 0)
    hidden_states = ops.zeros((rows, length, first.shape[-1]), first.dtype)

    def body(step, state, hidden_states):
        _, state, states = _decode_step(decoder, state, prompt, step)
        hidden_states = ops.slice_update(hidden_states, (0, step, 0), states)
        return step + 1, state, hidden_states

    start = ops.convert_to_tensor(0, dtype="int32")
    _, state, hidden_states = ops.while_loop(
        lambda step, *_: step < index - 1, body, (start, state, hidden_states)
    )
    return state, hidden_states


def _exclude_impossible(logits, index, lengths):
    """Excludes special ids, a first end, and at the limit all but the end."""
    ids = ops.arange(ops.shape(logits)[-1])
    is_end = ids == END_ID
    is_empty = ops.logical_and(is_end, index == 1)
    excluded = ops.logical_or(_is_any_of(ids, FORBIDDEN_IDS), is_empty)
    at_limit = ops.expand_dims(index >= lengths, 1)
    excluded = ops.where(at_limit, ops.logical_not(is_end), excluded)
    return ops.where(excluded, _EXCLUDED, logits)


def _mask_after_stop(ids, prompt_mask, stop_token_ids):
    if stop_token_ids is None:
        return ops.ones_like(ids, dtype="bool")
    stops = _is_any_of(ids, stop_token_ids)
    stops = ops.logical_and(stops, ops.logical_not(prompt_mask))
    stops = ops.cast(stops, "int32")
    before = ops.cumsum(stops, axis=-1) - stops
    return ops.logical_and(before == 0, ids != PAD_ID)


def _is_any_of(ids, numbers):
    none = ops.zeros_like(ids, dtype="bool")
    return functools.reduce(ops.logical_or, [ids == n for n in numbers], none)
