"""Reads what a model attends to while it translates."""

import dataclasses

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.translators.batches import translate_in_batches
from export.translators.graph_translator import IDS_SPEC, trace_once
from export.translators.text_ids import character_limit, list_of_texts, pad_ids
from export.translators.text_ops import (
    id_to_token,
    source_word_spans,
    target_word_spans,
    truncate_text,
)
from export.translators.translator import Translator
from keras_transformer.config import END_ID


@dataclasses.dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one translation; no padding anywhere.

    Letters: L layers of the encoder or the decoder, H heads, S source tokens,
    T target tokens. Every row sums to 1. Row t of `decoder` and `cross` is of
    the step that gives `target_tokens[t]`; that step sees
    `target_inputs[: t + 1]`, so the columns of `decoder` are those and not
    `target_tokens`.

    Attributes:
        text: the source.
        translation: as text.
        source_tokens: [S] str, such as "\u2581the", the last one "</s>". A
            piece that the vocabulary lacks stands as it is in the text.
        target_tokens: [T] str, the same of the translation.
        target_inputs: [T] str: "<s>", then `target_tokens` but the last.
        encoder: float32 [L, H, S, S], rows attending to columns.
        decoder: float32 [L, H, T, T].
        cross: float32 [L, H, T, S].
        source_words: int32 [S, 2]: the first and the last word of `text` that
            each token is of, -1 of the end; see `word_numbers`.
        target_words: int32 [T, 2], the same of `translation`.
        source_truncated: whether the text was longer than the model takes, so
            that only its beginning is here.
        target_truncated: the same of a translation that was given.
    """

    text: str
    translation: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    target_inputs: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_words: np.ndarray
    target_words: np.ndarray
    source_truncated: bool = False
    target_truncated: bool = False


class AttentionReader:
    """Attention weights of sentences as they are decoded.

    Args:
        translator: Translator of one model, not of an ensemble.
    """

    def __init__(self, translator):
        self._translator = translator
        self._tokenizer = translator.tokenizer
        model = translator.model

        def attend(source, target):
            weights = kt.attend_ids(model, source, target)
            return {kind: tf.stack(each, 1) for kind, each in weights.items()}

        self._attend = trace_once(attend, IDS_SPEC, IDS_SPEC)

    @classmethod
    def from_directory(cls, path, **settings):
        """Returns the reader of a model directory.

        Args:
            path: of the model directory.
            **settings: of Translator.

        Raises:
            InputError: it is not a whole model directory.
        """
        return cls(Translator.from_directory(path, **settings))

    def read(self, texts, translations=None):
        """Reads the attention of sentences.

        Args:
            texts: list of str, a sentence each.
            translations: list of str, as many, that the model is made to
                give; None for what its beam search finds.

        Returns:
            A list of AttentionMaps.

        Raises:
            InputError: a text is blank.
        """
        texts = list_of_texts(texts)
        if translations is None:
            pairs = self._translator.best_ids(texts)
        else:
            translations = list_of_texts(translations, "translations")
            pairs = self._translator.given_ids(texts, translations)
        for text, pair in zip(texts, pairs):
            if len(pair.source) == 1:
                raise InputError(
                    f"In the text {text!r} there is nothing to translate; "
                    "give a sentence."
                )

        def ask(batch):
            return self._weights([pairs[number] for number in batch])

        weights = translate_in_batches(
            [pair.length for pair in pairs], self._translator.batch_tokens, ask
        )
        if not texts:
            return []
        translator, target = self._translator, self._tokenizer.target
        sources = _side(
            self._tokenizer.source,
            texts,
            [pair.source for pair in pairs],
            translator.source_limit,
        )
        rows = [pair.target for pair in pairs]
        if translations is None:
            ids = pad_ids(rows)
            translations = target.decode(ids)
            pieces = id_to_token(target, ids).numpy().tolist()
            targets = zip(pieces, target_word_spans(target, ids).numpy())
        else:
            targets = _side(target, translations, rows, translator.target_limit)
        return [
            _maps(*each)
            for each in zip(
                texts, translations, pairs, sources, targets, weights
            )
        ]

    def _weights(self, pairs):
        """Returns a dict of numpy arrays for each pair, padding left out."""
        found = self._attend(
            pad_ids([pair.source for pair in pairs]),
            pad_ids([pair.target for pair in pairs]),
        )
        found = {kind: each.numpy() for kind, each in found.items()}
        return [
            _real(pair, {kind: each[row] for kind, each in found.items()})
            for row, pair in enumerate(pairs)
        ]


def _side(tokenizer, texts, rows, limit):
    """Yields the pieces and the words of texts that were given, as `rows`."""
    texts = tf.constant(texts)
    words = source_word_spans(tokenizer, texts, pad_ids(rows), limit).numpy()
    cut, _ = truncate_text(tokenizer, texts, character_limit(limit))
    end = tokenizer.id_to_piece(END_ID).encode()
    for ids, pieces, numbers in zip(
        rows, tokenizer.split(cut).to_list(), words
    ):
        yield [*pieces[: len(ids) - 1], end], numbers


def _maps(text, translation, pair, source, target, weights):
    tokens, words = [], []
    for (pieces, numbers), ids in (
        (source, pair.source),
        (target, pair.target),
    ):
        tokens.append(
            tuple(each.decode("utf-8") for each in pieces[: len(ids)])
        )
        words.append(numbers[: len(ids)])
    return AttentionMaps(
        text=text,
        translation=translation,
        source_tokens=tokens[0],
        target_tokens=tokens[1],
        target_inputs=("<s>", *tokens[1][:-1]),
        **weights,
        source_words=words[0],
        target_words=words[1],
        source_truncated=pair.source_truncated,
        target_truncated=pair.target_truncated,
    )


def _real(pair, weights):
    sides = {
        "encoder": (pair.source, pair.source),
        "decoder": (pair.target, pair.target),
        "cross": (pair.target, pair.source),
    }
    return {
        kind: weights[kind][:, :, : len(queries), : len(keys)]
        for kind, (queries, keys) in sides.items()
    }
