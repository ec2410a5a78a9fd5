"""The beam search as the sampler of a KerasHub task."""

import dataclasses

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import mask_ids
from export.translators.text_ids import truncation_limit
from export.translators.text_translator import Translation
from export.translators.translator import ModelTranslator
from keras_transformer.config import BEGIN_ID, PAD_ID
from keras_transformer.decoding.translate import (
    output_capacity,
    output_limits,
)

# Compiled source lengths are multiples of this number.
_LENGTH_STEP = 16
_BATCH_TOKENS = 2048
# Settings that are also fields of a TransformerConfig.
_FIELDS = ("beam_size", "alpha", "max_extra_tokens")


@keras.saving.register_keras_serializable("keras_transformer")
class TranslationSearch(keras_hub.samplers.Sampler):
    """Beam search with a length penalty (section 6.1 of the paper).

    Gives the translations of `export.translate`. KerasHub's "beam" sampler
    neither keeps finished hypotheses apart nor has a length penalty. Arguments
    are those of kt.BeamSearchConfig, and `max_extra_tokens`, the maximum number
    of tokens of an output beyond its source's length; None takes the value of
    the model's configuration.

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
        raise ValueError(
            "TranslationSearch is for TransformerSeq2SeqLM alone; give another "
            "task one of KerasHub's samplers."
        )

    def update_config(self, transformer):
        """Returns the model's TransformerConfig updated with the settings."""
        changes = {name: self.settings[name] for name in _FIELDS}
        changes = {n: each for n, each in changes.items() if each is not None}
        return transformer.config.replace(**changes)

    def search(self, transformer, inputs):
        """Returns the best translations of one batch; XLA can compile it.

        `inputs` are those of TransformerBackbone; the decoder's ids are the
        prefixes of translations, padded to the maximum length.

        Returns:
            int32 [B, T]: the begin id, the best translation, padding.
        """
        config = self.update_config(transformer)
        search_config = kt.BeamSearchConfig.from_config(config)
        if self.settings["stop_criterion"]:
            search_config = dataclasses.replace(
                search_config, stop_criterion=self.settings["stop_criterion"]
            )
        source = mask_ids(inputs, "encoder")
        prompt = mask_ids(inputs, "decoder")
        capacity = ops.shape(prompt)[1] - 1
        longest = output_limits(source, config.max_extra_tokens)
        longest = ops.minimum(longest, capacity)
        # At least one token and the end.
        shortest = ops.minimum(longest, 2)
        found = kt.translate_ids(
            transformer,
            source,
            capacity,
            kt.Constraints(longest, shortest, prompt[:, 1:]),
            search_config,
        )
        begin = ops.full_like(prompt[:, :1], BEGIN_ID)
        return ops.concatenate([begin, found.tokens[:, 0]], axis=1)


class FixedShapeTranslator(ModelTranslator):
    """Translates in batches of few shapes, each compiled once.

    `function` maps a dict of TransformerBackbone's inputs to a dict with
    `decoder_token_ids`; `config` includes the settings of the search;
    `max_output_tokens` limits translations, the end included, or is None.
    """

    batch_tokens = _BATCH_TOKENS
    num_threads = 1

    def __init__(self, function, tokenizer, config, max_output_tokens):
        super().__init__(tokenizer, config)
        self._function = function
        self._max_output_tokens = max_output_tokens

    def _search(self, sentences, n, align):
        longest = max(sentence.length for sentence in sentences)
        width = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
        width = truncation_limit(self._config, width)
        # The last batch is filled with rows of padding.
        rows = max(_BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        length = output_capacity(source, self._config)
        length = 1 + min(length, self._max_output_tokens or length)
        target = np.zeros((rows, length), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            source[row, : sentence.length] = sentence.ids
            prefix = sentence.prefix[: length - 1]
            target[row, 1 : 1 + len(prefix)] = prefix
        inputs = {"encoder_token_ids": source, "decoder_token_ids": target}
        for side, ids in (("encoder", source), ("decoder", target)):
            mask = (ids != PAD_ID).astype("int32")
            inputs[f"{side}_padding_mask"] = mask
        ids = self._function(inputs)["decoder_token_ids"]
        ids = np.asarray(ops.convert_to_numpy(ids))[: len(sentences), 1:]
        texts = self.tokenizer.decode(ids)
        return [
            [Translation(text, 0.0)] if row.any() else []
            for text, row in zip(texts, ids)
        ]
