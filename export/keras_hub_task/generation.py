"""Beam search as a KerasHub sampler, and sampling by KerasHub's samplers."""

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import mask_ids
from export.translators.batches import truncation_limit
from export.translators.text_translator import Translation
from export.translators.translator import ModelTranslator
from keras_transformer.config import BEGIN_ID, END_ID, FORBIDDEN_IDS, PAD_ID
from keras_transformer.decoding.translate import output_capacity, output_limits

# Source lengths are padded to multiples of this, to compile few shapes.
_LENGTH_STEP = 16
_BATCH_TOKENS = 2048
# Logit of an excluded token; finite, because samplers apply a softmax.
_EXCLUDED_LOGIT = -1e9


@keras.saving.register_keras_serializable("keras_transformer")
class TranslationSearch(keras_hub.samplers.Sampler):
    """Beam search with a length penalty (section 6.1 of the paper).

    Gives the translations of `export.translate`; KerasHub's "beam" sampler has
    no length penalty and drops finished hypotheses. The arguments override
    fields of the model's TransformerConfig, unless None.

    Example:
        >>> task.compile(sampler=TranslationSearch(beam_size=8))
    """

    def __init__(
        self,
        beam_size=None,
        alpha=None,
        max_extra_tokens=None,
        stop_criterion=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings = {
            "beam_size": beam_size,
            "alpha": alpha,
            "max_extra_tokens": max_extra_tokens,
            "stop_criterion": stop_criterion,
        }

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self.settings}

    def __call__(self, *args, **kwargs):
        """Raises ValueError: KerasHub does not pass the model to samplers."""
        raise ValueError("TranslationSearch is for TransformerSeq2SeqLM alone.")

    def resolve_config(self, transformer):
        """Returns the model's TransformerConfig with this search's settings."""
        fields = {
            name: value
            for name, value in self.settings.items()
            if value is not None
        }
        return transformer.config.replace(**fields)

    def search(self, transformer, inputs):
        """Returns int32 [B, T]: the begin id, the best translation, padding.

        XLA can compile it. `inputs` are as in `task.generate_step`.
        """
        config = self.resolve_config(transformer)
        source = mask_ids(inputs, "encoder")
        prompt = mask_ids(inputs, "decoder")
        capacity = ops.shape(prompt)[1] - 1
        max_lengths = output_limits(source, config.max_extra_tokens)
        max_lengths = ops.minimum(max_lengths, capacity)
        # At least one token and the end.
        min_lengths = ops.minimum(max_lengths, 2)
        output = kt.translate_ids(
            transformer,
            source,
            capacity,
            kt.Constraints(max_lengths, min_lengths, prompt[:, 1:]),
            kt.BeamSearchConfig.from_config(config),
        )
        begin = ops.full_like(prompt[:, :1], BEGIN_ID)
        return ops.concatenate([begin, output.tokens[:, 0]], axis=1)


class FixedShapeTranslator(ModelTranslator):
    """Translates in batches of few shapes, each compiled once.

    `generate_function` is `task.make_generate_function()`; `config` includes
    the settings of the search. `max_output_tokens` limits translations, the end
    included; None is no limit.
    """

    batch_tokens = _BATCH_TOKENS
    num_threads = 1

    def __init__(self, generate_function, tokenizer, config, max_output_tokens):
        super().__init__(tokenizer, config)
        self._generate_function = generate_function
        self._max_output_tokens = max_output_tokens

    def _search(self, sentences, n, align):
        longest = max(sentence.length for sentence in sentences)
        width = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
        width = truncation_limit(self._config, width)
        # The last batch is filled with rows of padding.
        rows = max(_BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        max_tokens = output_capacity(source, self._config)
        if self._max_output_tokens:
            max_tokens = min(max_tokens, self._max_output_tokens)
        target = np.zeros((rows, 1 + max_tokens), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            source[row, : sentence.length] = sentence.ids
            prefix = sentence.prefix[:max_tokens]
            target[row, 1 : 1 + len(prefix)] = prefix
        outputs = self._generate_function(
            {
                "encoder_token_ids": source,
                "encoder_padding_mask": (source != PAD_ID).astype("int32"),
                "decoder_token_ids": target,
                "decoder_padding_mask": (target != PAD_ID).astype("int32"),
            }
        )
        ids = ops.convert_to_numpy(outputs["decoder_token_ids"])
        ids = ids[: len(sentences), 1:]
        texts = self.tokenizer.decode(ids)
        return [
            [Translation(text, 0.0)] if row.any() else []
            for text, row in zip(texts, ids)
        ]


def sample_translations(task, transformer, inputs, stop_token_ids):
    """Samples a translation of each sentence; see `task.generate_step`.

    As in the beam search, a translation has at most `max_extra_tokens` tokens
    more than its source, and blank text has none. Returns the ids, int32
    [B, T], and a boolean mask [B, T] of the translation with its end.
    """
    prompt = mask_ids(inputs, "decoder")
    prompt_mask = ops.cast(inputs["decoder_padding_mask"], "bool")
    source = mask_ids(inputs, "encoder")
    decoder = transformer.beam_decoder(1)
    # The first position at which the prefix of some sentence has ended.
    index = ops.min(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))
    state = decoder.start(source, ops.shape(prompt)[1])
    state = _decode_prompt(decoder, state, prompt, index)
    is_text = ops.logical_and(source != PAD_ID, source != END_ID)
    has_text = ops.any(is_text, axis=1)
    max_lengths = output_limits(source, transformer.config.max_extra_tokens)
    max_lengths = ops.where(has_text, max_lengths, 1)
    # The capacity counts the begin id.
    max_lengths = ops.minimum(max_lengths, ops.shape(prompt)[1] - 1)

    def next_logits(tokens, cache, index):
        # The limits are in the cache for samplers that repeat its rows.
        state, max_lengths = cache
        logits, state = _decode_step(decoder, state, tokens, index - 1)
        logits = _exclude_impossible(logits[:, 0], index, max_lengths)
        return logits, None, (state, max_lengths)

    ids = task.sampler(
        next=next_logits,
        prompt=prompt,
        cache=(state, max_lengths),
        index=index,
        mask=prompt_mask,
        stop_token_ids=stop_token_ids,
        model=task,
    )
    mask = _mask_until_stop(ids, prompt_mask, stop_token_ids)
    is_begin = ops.arange(ops.shape(ids)[1]) == 0
    may_have_ids = ops.logical_or(has_text[:, None], is_begin)
    return ids, ops.logical_and(mask, may_have_ids)


def _decode_step(decoder, state, tokens, index):
    """Returns the logits and the state after one step."""
    rows = ops.shape(tokens)[0]
    newest = ops.slice(tokens, (0, index), (rows, 1))
    parents = ops.zeros((rows, 1), dtype="int32")
    return decoder.step(newest, parents, index, state)


def _decode_prompt(decoder, state, prompt, index):
    """Returns the state after the tokens of the prompt before `index` - 1."""

    def decode_token(step, state):
        return _decode_step(decoder, state, prompt, step)[1]

    return ops.fori_loop(0, index - 1, decode_token, state)


def _exclude_impossible(logits, index, max_lengths):
    """Excludes special ids, an end at first, and at the limit all but it."""
    ids = ops.arange(ops.shape(logits)[-1])
    is_end = ids == END_ID
    is_empty = ops.logical_and(is_end, index == 1)
    excluded = ops.logical_or(_is_any_of(ids, FORBIDDEN_IDS), is_empty)
    at_limit = ops.expand_dims(index >= max_lengths, 1)
    excluded = ops.where(at_limit, ops.logical_not(is_end), excluded)
    return ops.where(excluded, _EXCLUDED_LOGIT, logits)


def _mask_until_stop(ids, prompt_mask, stop_token_ids):
    """Returns a mask of the ids up to the first stop after the prompt."""
    if stop_token_ids is None:
        return ops.ones_like(ids, dtype="bool")
    is_stop = _is_any_of(ids, stop_token_ids)
    is_stop = ops.logical_and(is_stop, ops.logical_not(prompt_mask))
    is_stop = ops.cast(is_stop, "int32")
    stops_before = ops.cumsum(is_stop, axis=-1) - is_stop
    return ops.logical_and(stops_before == 0, ids != PAD_ID)


def _is_any_of(ids, candidates):
    candidates = ops.convert_to_tensor(candidates, dtype=ids.dtype)
    return ops.any(ops.expand_dims(ids, -1) == candidates, axis=-1)
