"""Beam search as a KerasHub sampler, and sampling by KerasHub's samplers."""

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import mask_ids
from export.translators.batches import BATCH_TOKENS, truncation_limit
from export.translators.model_backend import ModelBackend
from export.translators.translation import Translation
from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    SEARCH_FIELDS,
)
from keras_transformer.decoding.translate import output_capacity, output_limits
from keras_transformer.ids import arange

# Source lengths are padded to multiples of this, to compile few shapes.
_LENGTH_STEP = 16
# Logit of an excluded token; finite, because samplers apply a softmax.
_EXCLUDED_LOGIT = -1e9


@keras.saving.register_keras_serializable("keras_transformer")
class TranslationSearch(keras_hub.samplers.Sampler):
    """Beam search with a length penalty (section 6.1 of the paper).

    Gives the translations of `export.translate`; KerasHub's "beam" sampler has
    no length penalty and drops finished hypotheses. The arguments are those of
    `TransformerConfig.with_search` and of the base class. Unlike KerasHub's
    samplers it is not called: TransformerSeq2SeqLM runs `search`.

    Examples:
        >>> task.compile(sampler=TranslationSearch(beam_size=8))
    """

    def __init__(self, **kwargs):
        self.settings = {name: kwargs.pop(name, None) for name in SEARCH_FIELDS}
        super().__init__(**kwargs)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self.settings}

    def __call__(self, *args, **kwargs):
        """Raises ValueError: KerasHub does not pass the model to samplers."""
        raise ValueError("TranslationSearch is for TransformerSeq2SeqLM alone.")

    def resolve_config(self, model):
        """Returns the model's TransformerConfig with this search's settings."""
        return model.config.with_search(**self.settings)

    def search(self, model, inputs):
        """Returns int32 [B, T]: the begin id, the best translation, padding.

        XLA can compile it. `inputs` are a TransformerBackbone's; the decoder's
        are the begin id, the prefix of the translation, and padding. `model` is
        a Transformer or a TargetLanguageModel.
        """
        config = self.resolve_config(model)
        source = mask_ids(inputs, "encoder")
        prompt = mask_ids(inputs, "decoder")
        capacity = ops.shape(prompt)[1] - 1
        limits = output_limits(source, config.max_extra_tokens)
        output = kt.translate_ids(
            model,
            source,
            capacity,
            kt.Constraints(limits, prefix=prompt[:, 1:]),
            kt.BeamSearchConfig.from_config(
                config, num_given_tokens=model.num_given_tokens, min_length=1
            ),
        )
        begin = ops.full_like(prompt[:, :1], BEGIN_ID)
        return ops.concatenate([begin, output.tokens[:, 0]], axis=1)


class FixedShapeBackend(ModelBackend):
    """Translates in batches of few shapes, each compiled once.

    `generate_function` is `task.make_generate_function()`, `tokenizer` that of
    its preprocessor; `config` includes the settings of the search.
    `max_output_tokens` limits translations, the end included; None is no limit.
    """

    num_threads = 1

    def __init__(self, generate_function, tokenizer, config, max_output_tokens):
        super().__init__(tokenizer, config)
        self._generate_function = generate_function
        self._max_output_tokens = max_output_tokens

    def search(self, sentences, n, align):
        """See the base class."""
        # The generate function returns one translation, without its score.
        del n, align
        longest = max(sentence.length for sentence in sentences)
        width = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
        width = truncation_limit(self._config, width)
        # The last batch is filled with rows of padding.
        rows = max(BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        max_tokens = output_capacity(source, self._config)
        if self._max_output_tokens:
            max_tokens = min(max_tokens, self._max_output_tokens)
        start = 1 + self.tokenizer.num_given_tokens
        target = np.zeros((rows, start + max_tokens), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            given, ids = np.split(sentence.ids, [start - 1])
            source[row, : len(ids)] = ids
            prefix = [*given, *sentence.prefix[:max_tokens]]
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
        ids = ids[: len(sentences), start:]
        texts = self.tokenizer.target.decode(ids)
        return [
            [Translation(text, 0.0)] if row.any() else []
            for text, row in zip(texts, ids)
        ]


def move_given_tokens(inputs, count):
    """Moves the `count` ids after the begin id of a decoder before sources."""
    moved = {}
    for name in ("token_ids", "padding_mask"):
        source, target = inputs[f"encoder_{name}"], inputs[f"decoder_{name}"]
        begin, given, rest = ops.split(target, [1, 1 + count], axis=1)
        moved[f"encoder_{name}"] = ops.concatenate([given, source], axis=1)
        moved[f"decoder_{name}"] = ops.concatenate([begin, rest], axis=1)
    return moved


def sample_translations(task, model, inputs, stop_token_ids):
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
