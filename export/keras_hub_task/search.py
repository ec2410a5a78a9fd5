"""Our own beam search as the sampler of a KerasHub task."""

import dataclasses

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import without_padding
from export.translators.model_translator import ModelTranslator
from export.translators.text_ids import source_limit
from export.translators.text_translator import Translation
from keras_transformer.config import BEGIN_ID, PAD_ID
from keras_transformer.decoding.translate import output_limits

# Widths of sources and numbers of rows that are compiled are multiples of it.
_STEP = 16
_BATCH_TOKENS = 2048


@keras.saving.register_keras_serializable("keras_transformer")
class TranslationSearch(keras_hub.samplers.Sampler):
    """Beam search with a length penalty: section 6.1, as in export.translate.

    KerasHub's own "beam" neither keeps finished hypotheses apart nor has a
    length penalty. What is None is the configuration's.

    Args:
        beam_size: K.
        alpha: exponent of the length penalty.
        max_output_extra: an output has at most as many tokens as its source
            + this.
        min_length: pieces that an output has at least.
        stop: when a sentence stops, of kt.SearchRules.
        **kwargs: of Sampler.

    Example:
        >>> task.compile(sampler=TranslationSearch(beam_size=8))
    """

    def __init__(
        self,
        beam_size=None,
        alpha=None,
        max_output_extra=None,
        min_length=1,
        stop=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings = {
            "beam_size": beam_size,
            "alpha": alpha,
            "max_output_extra": max_output_extra,
            "min_length": min_length,
            "stop": stop,
        }

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self.settings}

    def __call__(self, *args, **kwargs):
        """Refuses: it asks the model itself, which Sampler does not know.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "TranslationSearch is for TransformerSeq2SeqLM alone; give another "
            "task one of KerasHub's samplers."
        )

    def config_of(self, transformer):
        """Returns the TransformerConfig with what was asked for in it."""
        given = {
            name: self.settings[name]
            for name in ("beam_size", "alpha", "max_output_extra")
            if self.settings[name] is not None
        }
        return transformer.config.replace(**given)

    def find(self, transformer, inputs):
        """Searches for one batch; XLA can compile it.

        Args:
            transformer: kt.Transformer.
            inputs: dict, as TransformerBackbone takes; the decoder's ids are
                what translations begin with, and as long as they may be.

        Returns:
            int32 [B, T]: the begin id, the best translation, padding.
        """
        config = self.config_of(transformer)
        rules = kt.search_rules(config)
        if self.settings["stop"]:
            rules = dataclasses.replace(rules, stop=self.settings["stop"])
        source = without_padding(inputs, "encoder")
        prompt = without_padding(inputs, "decoder")
        capacity = ops.shape(prompt)[1] - 1
        longest = output_limits(source, config.max_output_extra)
        longest = ops.minimum(longest, capacity)
        shortest = ops.minimum(longest, self.settings["min_length"] + 1)
        found = kt.translate_ids(
            transformer,
            source,
            capacity,
            kt.Constraints(longest, shortest, prompt[:, 1:]),
            rules,
        )
        begin = ops.full_like(prompt[:, :1], BEGIN_ID)
        return ops.concatenate([begin, found.tokens[:, 0]], axis=1)


class ShapedTranslator(ModelTranslator):
    """Translates in batches of few shapes, each of which is compiled.

    Args:
        find: function of a dict as TransformerBackbone takes, that returns a
            dict of `decoder_token_ids`.
        tokenizer: kt's Tokenizer.
        config: TransformerConfig, with the search's numbers in it.
        max_output_tokens: tokens of a translation, the end id counted; None
            for no such limit.
    """

    batch_tokens = _BATCH_TOKENS

    def __init__(self, find, tokenizer, config, max_output_tokens):
        super().__init__(tokenizer, config)
        self._find = find
        self._most = max_output_tokens

    def _at_once(self):
        return 1

    def _search(self, sentences, n, align):
        width = -(-max(each.length for each in sentences) // _STEP) * _STEP
        width = source_limit(self._config, width)
        # Of the last batch the rows that are missing hold padding.
        rows = max(_BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        length = kt.output_capacity(source, self._config)
        length = 1 + min(length, self._most or length)
        target = np.zeros((rows, length), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            source[row, : sentence.length] = sentence.ids
            prefix = sentence.prefix[: length - 1]
            target[row, 1 : 1 + len(prefix)] = prefix
        found = self._find(as_inputs(source, target))["decoder_token_ids"]
        found = np.asarray(ops.convert_to_numpy(found))[: len(sentences), 1:]
        texts = self.tokenizer.decode(found)
        return [
            [Translation(text, 0.0)] if ids.any() else []
            for text, ids in zip(texts, found)
        ]


def as_inputs(source, target):
    """Returns what TransformerBackbone takes, of int32 arrays padded with 0."""
    return {
        "encoder_token_ids": source,
        "encoder_padding_mask": (source != PAD_ID).astype("int32"),
        "decoder_token_ids": target,
        "decoder_padding_mask": (target != PAD_ID).astype("int32"),
    }
