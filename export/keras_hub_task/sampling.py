"""KerasHub's samplers over the model's cached step."""

from keras import ops

from export.keras_hub_task.backbone import without_padding
from keras_transformer.config import END_ID, FORBIDDEN_IDS, PAD_ID
from keras_transformer.decoding.translate import output_limits

# Of what no translation says; samplers make probabilities of logits.
_NEVER = -1e9


def sample(task, transformer, inputs, stop_token_ids):
    """Samples a translation of each sentence with the task's sampler.

    As in our search a translation ends where its source's length and the
    configuration's `max_output_extra` say, and that of no text is no text.

    Letters: B batch, T length of translations.

    Args:
        task: TransformerSeq2SeqLM, compiled with one of KerasHub's samplers.
        transformer: kt.Transformer.
        inputs: dict, as TransformerBackbone takes; the decoder's ids are what
            translations begin with.
        stop_token_ids: ids that end a translation, or None.

    Returns:
        int32 [B, T], and boolean [B, T]: what is a translation, its end
        counted.
    """
    prompt = without_padding(inputs, "decoder")
    given = ops.cast(inputs["decoder_padding_mask"], "bool")
    source = without_padding(inputs, "encoder")
    decoder = transformer.beam_decoder(1)
    has_text, longest = _limits(source, transformer.config.max_output_extra)
    # With the begin id, which is in the first place.
    longest = ops.minimum(longest, ops.shape(prompt)[1] - 1)
    # The first place that some sentence has nothing in.
    index = ops.min(ops.sum(ops.cast(given, "int32"), axis=-1))
    state, hidden = _after_prompt(
        decoder, decoder.start(source, ops.shape(prompt)[1]), prompt, index
    )

    def next_logits(tokens, cache, index):
        # Samplers that make several rows of one do so with all of the cache.
        state, longest = cache
        states, state = _step(decoder, state, tokens, index - 1)
        logits = _possible(decoder.logits(states)[:, 0], index, longest)
        return logits, states[:, 0], (state, longest)

    ids = task.sampler(
        next=next_logits,
        prompt=prompt,
        cache=(state, longest),
        index=index,
        mask=given,
        stop_token_ids=stop_token_ids,
        hidden_states=hidden,
        model=task,
    )
    shown = _until_stop(ids, given, stop_token_ids)
    begin = ops.arange(ops.shape(ids)[1]) == 0
    return ids, ops.logical_and(shown, ops.logical_or(has_text[:, None], begin))


def _step(decoder, state, tokens, index):
    """Decodes the tokens in one place; returns float [B, 1, D] and state."""
    rows = ops.shape(tokens)[0]
    newest = ops.slice(tokens, (0, index), (rows, 1))
    parents = ops.zeros((rows, 1), dtype="int32")
    return decoder.states_step(newest, parents, index, state)[:2]


def _after_prompt(decoder, state, prompt, index):
    """Fills the caches with all but the last token that everyone has.

    Returns the state, and the states of these tokens, float [B, T, D].
    """
    rows, length = ops.shape(prompt)
    first, _ = _step(decoder, state, prompt, 0)
    hidden = ops.zeros((rows, length, first.shape[-1]), dtype=first.dtype)

    def body(place, state, hidden):
        states, state = _step(decoder, state, prompt, place)
        hidden = ops.slice_update(hidden, (0, place, 0), states)
        return place + 1, state, hidden

    start = ops.convert_to_tensor(0, dtype="int32")
    _, state, hidden = ops.while_loop(
        lambda place, *_: place < index - 1, body, (start, state, hidden)
    )
    return state, hidden


def _limits(source, extra):
    """Returns what sources have text, boolean [B], and int32 [B]: tokens.

    With the end id; 1 of an empty source.
    """
    pieces = ops.logical_and(source != PAD_ID, source != END_ID)
    has_text = ops.any(pieces, axis=1)
    return has_text, ops.where(has_text, output_limits(source, extra), 1)


def _possible(logits, index, longest):
    """Leaves out what export.translate does.

    Special ids; the end at once; and at the longest all but the end.
    """
    ids = ops.arange(ops.shape(logits)[-1])
    never = ops.zeros_like(ids, dtype="bool")
    for number in FORBIDDEN_IDS:
        never = ops.logical_or(never, ids == number)
    ends = ids == END_ID
    never = ops.logical_or(never, ops.logical_and(ends, index == 1))
    at_limit = ops.expand_dims(index >= longest, 1)
    never = ops.where(at_limit, ops.logical_not(ends), never)
    return ops.where(never, _NEVER, logits)


def _until_stop(ids, given, stop_token_ids):
    if stop_token_ids is None:
        return ops.ones_like(ids, dtype="bool")
    stops = ops.zeros_like(ids, dtype="bool")
    for number in stop_token_ids:
        stops = ops.logical_or(stops, ids == number)
    stops = ops.cast(ops.logical_and(stops, ops.logical_not(given)), "int32")
    before = ops.cumsum(stops, axis=-1) - stops
    return ops.logical_and(before == 0, ids != PAD_ID)
