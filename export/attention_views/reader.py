"""Reads the attention weights of translations."""

import typing
from collections.abc import Iterable

import numpy as np
from keras import ops

import keras_transformer as kt
from export.attention_views.word_attention import AttentionMaps
from export.common.errors import InputError
from export.tokenizers import splits_in_python
from export.translators.batches import (
    map_in_batches,
    pad_ids,
    validate_texts,
)

if typing.TYPE_CHECKING:
    from export.translators.translator import Translator

# JAX needs no TensorFlow.
_HAS_WORDS = not splits_in_python()
if not _HAS_WORDS:
    from export.translators.ids_backend import compile_for_model
else:
    import tensorflow as tf

    from export.translators.graph_translator import IDS_SPEC, trace_once
    from export.translators.text_ops import (
        padded_ids_to_tokens,
        source_word_spans,
        target_word_spans,
    )


class AttentionReader:
    """Reads attention weights with a Translator of one model.

    If `splits_in_python()`, the words of the AttentionMaps are unknown, -1.
    """

    def __init__(self, translator: "Translator"):
        self._translator = translator
        self._tokenizer = translator.tokenizer
        model = translator.model

        def compute_weights(source, target):
            weights = kt.attention_scores(model, source, target)
            return {kind: ops.stack(each, 1) for kind, each in weights.items()}

        if not _HAS_WORDS:
            self._compute_weights = compile_for_model(model, compute_weights)
        else:
            self._compute_weights = trace_once(
                compute_weights, IDS_SPEC, IDS_SPEC
            )

    def read(
        self, texts: Iterable[str], translations: Iterable[str] | None = None
    ) -> list[AttentionMaps]:
        """Returns the AttentionMaps of each text.

        The model is teacher-forced on `translations`, one for each text, by
        default its beam search's. Raises InputError if a text is blank.
        """
        texts = validate_texts(texts)
        is_search = translations is None
        if is_search:
            pairs = self._translator.translate_to_pairs(texts)
        else:
            translations = validate_texts(translations, "translations")  # type: ignore[arg-type]
            pairs = self._translator.pairs(texts, translations)
        for text, pair in zip(texts, pairs):
            if pair.source.length == 1:
                raise InputError(f"Expected a sentence as text, got {text!r}.")
        if not texts:
            return []
        weights = map_in_batches(
            [pair.length for pair in pairs],
            self._translator.backend.batch_tokens,
            lambda indices: self._batch_weights([pairs[i] for i in indices]),
            num_threads=self._translator.backend.num_threads,
        )
        tagged_texts = [*map(self._translator.languages.tag, texts)]
        sources = self._tokens_and_words("source", tagged_texts, pairs)
        targets = self._tokens_and_words("target", translations, pairs)
        if is_search:
            translations = self._tokenizer.target.decode(
                pad_ids([pair.target.ids for pair in pairs])
            )
        rows = zip(texts, translations, pairs, sources, targets, weights)  # type: ignore[arg-type]
        return [_make_maps(*row) for row in rows]

    def _tokens_and_words(self, side, texts, pairs):
        """Yields tokens and word spans of a side; no texts after a search."""
        tokenizer = getattr(self._tokenizer, side)
        rows = [getattr(pair, side).ids for pair in pairs]
        if not _HAS_WORDS:
            for row in rows:
                tokens = tuple(map(tokenizer.id_to_token, row.tolist()))
                yield tokens, np.full((len(row), 2), -1, np.int32)
            return
        ids = pad_ids(rows)
        if texts is None:
            spans = target_word_spans(tokenizer, ids)
        else:
            limit = getattr(self._translator.backend, f"{side}_limit")
            spans = source_word_spans(tokenizer, tf.constant(texts), ids, limit)
        tokens = padded_ids_to_tokens(tokenizer, ids).numpy().tolist()
        for row, words in zip(tokens, spans.numpy()):
            strings = tuple(token.decode("utf-8") for token in row if token)
            yield strings, words[: len(strings)]

    def _batch_weights(self, pairs):
        """Returns a dict of padded arrays for each pair."""
        weights = self._compute_weights(
            pad_ids([pair.source.ids for pair in pairs]),
            pad_ids([pair.target.ids for pair in pairs]),
        )
        weights = {kind: np.asarray(each) for kind, each in weights.items()}
        return [
            {kind: array[row] for kind, array in weights.items()}
            for row in range(len(pairs))
        ]


def _make_maps(text, translation, pair, source, target, weights):
    """Returns AttentionMaps without padding.

    `source` and `target` are tokens and words of a side, and `weights` a dict
    of padded float32 [L, H, Q, K].
    """
    source_tokens, source_words = source
    target_tokens, target_words = target
    s, t = len(source_tokens), len(target_tokens)
    return AttentionMaps(
        text=text,
        translation=translation,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        target_inputs=("<s>", *target_tokens[:-1]),
        encoder=weights["encoder"][:, :, :s, :s],
        decoder=weights["decoder"][:, :, :t, :t],
        cross=weights["cross"][:, :, :t, :s],
        source_words=source_words,
        target_words=target_words,
        source_truncated=pair.source.truncated,
        target_truncated=pair.target.truncated,
    )
