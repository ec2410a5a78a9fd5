"""Batches of few shapes, each of which is compiled once."""

import math

import numpy as np
from keras import ops

from export.translators.batches import BATCH_TOKENS, truncation_limit
from export.translators.model_backend import ModelBackend
from export.translators.translation import Translation
from keras_transformer.config import BEGIN_ID, PAD_ID
from keras_transformer.decoding.translate import output_capacity

# Source lengths are padded to multiples of this, to compile few shapes.
_LENGTH_STEP = 16


class FixedShapeBackend(ModelBackend):
    """Runs the generate function of a task on batches of sentences.

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
        """See the base class; `n` is 1, and no words are aligned."""
        del n, align
        start = 1 + self.tokenizer.num_given_tokens
        source, target = self._pad(sentences, start)
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
        # The generate function returns no scores.
        return [
            [Translation(text, math.nan)] if row.any() else []
            for text, row in zip(texts, ids)
        ]

    def _pad(self, sentences, start):
        """Returns source and target ids, int32, with rows of padding.

        Targets have the begin id, given tokens and prefix, and from `start` on
        space for the translation.
        """
        longest = max(sentence.length for sentence in sentences)
        width = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
        width = truncation_limit(self._config, width)
        rows = max(BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        max_tokens = output_capacity(source, self._config)
        if self._max_output_tokens:
            max_tokens = min(max_tokens, self._max_output_tokens)
        target = np.zeros((rows, start + max_tokens), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            given, ids = np.split(sentence.ids, [start - 1])
            source[row, : len(ids)] = ids
            prefix = [*given, *sentence.prefix[:max_tokens]]
            target[row, 1 : 1 + len(prefix)] = prefix
        return source, target
