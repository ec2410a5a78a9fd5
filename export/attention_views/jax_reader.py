"""Reads the attention weights of translations on JAX."""

import numpy as np
from keras import ops

import keras_transformer as kt
from export.attention_views.attention_maps import make_attention_maps
from export.translators.batches import pad_ids
from export.translators.jax_backend import compile_for_model


class JaxAttentionReader:
    """Reads attention weights with a Translator on JAX.

    The words of the AttentionMaps are unknown, -1.
    """

    def __init__(self, translator):
        self._translator = translator
        model = translator.model

        def compute_weights(source, target):
            weights = kt.attention_scores(model, source, target)
            return {kind: ops.stack(each, 1) for kind, each in weights.items()}

        self._compute_weights = compile_for_model(model, compute_weights)

    def read(self, texts):
        """Returns a list of AttentionMaps of the translations of texts."""
        tokenizer = self._translator.tokenizer
        pairs = self._translator.translate_to_pairs(texts)
        source = pad_ids([pair.source.ids for pair in pairs])
        target = pad_ids([pair.target.ids for pair in pairs])
        weights = {
            kind: np.asarray(each)
            for kind, each in self._compute_weights(source, target).items()
        }
        return [
            make_attention_maps(
                text,
                translation,
                pair,
                _tokens_and_words(tokenizer.source, pair.source.ids),
                _tokens_and_words(tokenizer.target, pair.target.ids),
                {kind: each[row] for kind, each in weights.items()},
            )
            for row, (text, translation, pair) in enumerate(
                zip(texts, tokenizer.target.decode(target), pairs)
            )
        ]


def _tokens_and_words(tokenizer, ids):
    tokens = tuple(map(tokenizer.id_to_token, ids.tolist()))
    return tokens, np.full((len(ids), 2), -1, np.int32)
