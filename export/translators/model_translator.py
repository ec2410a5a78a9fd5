"""Translators in Python, for Keras' backend."""

import keras
import numpy as np

from export.common.errors import InputError
from export.model_directory import ModelDirectory, load_models
from export.translators.batches import (
    character_limit,
    pad_ids,
    truncation_limit,
    validate_texts,
)
from export.translators.languages import Languages
from export.translators.text_translator import (
    IdPair,
    Sentence,
    TextTranslator,
    UnknownCharacterError,
)
from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.target_language import with_target_language

MAX_SOURCE_TOKENS = 512


class ModelTranslator(TextTranslator):
    """Base of translators in Python: tokenizes and limits texts and prefixes.

    Args:
        tokenizer: Tokenizer of the vocabulary, or TokenizerPair.
        config: TransformerConfig with the search's settings.
        max_source_tokens: maximum number of ids of a source, the end id
            included; 512 by default.
    """

    def __init__(self, tokenizer, config, max_source_tokens=None):
        self.tokenizer = tokenizer
        self.languages = Languages.from_tokenizer(tokenizer)
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self.beam_size = config.beam_size
        self._config = config

    @classmethod
    def from_directory(cls, path, *others, ensemble_mean=None, **settings):
        """Returns the translator of a model directory, or of an ensemble.

        For `ensemble_mean` see `load_models`, for `settings` the constructor.
        """
        model, tokenizer = load_models([path, *others], ensemble_mean)
        translator = cls(model, tokenizer, **settings)
        directory = ModelDirectory(path)
        translator.languages = Languages.from_directory(directory, tokenizer)
        return translator

    @property
    def source_limit(self):
        """`max_source_tokens`, at most the number of learned positions."""
        return truncation_limit(self._config, self.max_source_tokens)

    @property
    def target_limit(self):
        """Maximum number of ids of a translation, the end id included."""
        longest = self.source_limit + self._config.max_extra_tokens
        return truncation_limit(self._config, longest)

    def target_lengths(self, translations):
        """Returns numbers of ids, a list of int; None above the limit."""
        targets = self.encode_targets(translations)
        return [None if truncated else len(ids) for ids, truncated in targets]

    def encode_targets(self, translations):
        """Encodes a list of str; returns pairs as `encode_texts`."""
        translations = validate_texts(translations, "translations")
        return encode_texts(
            self.tokenizer.target, translations, self.target_limit
        )

    def normalize_prefixes(self, prefixes, keep_long=True):
        r"""Returns prefixes as the vocabulary spells them, a list of str.

        For example, "\ufb01" becomes "fi", and spaces become single, with none
        at the ends. A prefix above the maximum length of a translation is
        unchanged, or truncated if not `keep_long`. Raises
        UnknownCharacterError if the vocabulary lacks a character.
        """
        encoded = self._encode_prefixes(prefixes)
        if not encoded:
            return []
        ids = pad_ids([prefix_ids for prefix_ids, _ in encoded])
        texts = self.tokenizer.target.decode(ids)
        return [
            prefix if truncated and keep_long else text
            for prefix, text, (_, truncated) in zip(prefixes, texts, encoded)
        ]

    def translate_to_pairs(self, texts):
        """Translates to IdPairs; the target of blank text is the end id."""
        sentences = self.sentences(texts)

        def search_batch(batch):
            return [row[row != PAD_ID] for row in self._search_best(batch)]

        targets = self._map_batches(search_batch, sentences)
        blank = np.array([END_ID], np.int32)
        return [
            IdPair(
                sentence.ids,
                blank if target is None else target,
                sentence.truncated,
            )
            for sentence, target in zip(sentences, targets)
        ]

    def _validate_terms(self, terms):
        raise InputError(
            f"{type(self).__name__} takes no terms: use Translator, or start "
            "the command with KERAS_BACKEND=tensorflow."
        )

    def _search_best(self, sentences):
        """Returns the ids of the best translations, int32 [B, T]."""
        raise NotImplementedError

    def _tokenize(self, texts):
        encoded = encode_texts(self.tokenizer.source, texts, self.source_limit)
        return [
            Sentence(text, ids, len(ids), truncated)
            for text, (ids, truncated) in zip(texts, encoded)
        ]

    def _prefix_ids(self, prefixes):
        return [ids for ids, _ in self._encode_prefixes(prefixes)]

    def _encode_prefixes(self, prefixes):
        """Returns pairs: ids without the end id, and whether truncated."""
        tokenizer = self.tokenizer.target
        prefixes = validate_texts(prefixes, "prefixes")
        encoded = encode_texts(tokenizer, prefixes, self.target_limit)
        for index, (ids, _) in enumerate(encoded):
            if UNKNOWN_ID in ids:
                character = _first_unknown_character(tokenizer, prefixes[index])
                raise UnknownCharacterError(index, character)
        return [(ids[:-1], truncated) for ids, truncated in encoded]

    def _decode(self, tokens):
        """Returns the texts of int32 [B, N, T], B lists of N str."""
        batch_size, n, length = tokens.shape
        tokens = np.asarray(tokens).reshape(batch_size * n, length)
        texts = self.tokenizer.target.decode(tokens)
        return [texts[i * n : (i + 1) * n] for i in range(batch_size)]


def encode_texts(tokenizer, texts, limit):
    """Encodes a list of str.

    Returns a list of pairs: an int32 array of at most `limit` ids, the end id
    included, and whether it was truncated.
    """
    max_characters = character_limit(limit)
    # As by `clean_text` of the Tokenizer.
    texts = [text.replace("\0", "") for text in texts]
    encoded = []
    rows = tokenizer.encode([text[:max_characters] for text in texts])
    for text, ids in zip(texts, rows):
        truncated = len(text) > max_characters
        if len(ids) > limit:
            ids = np.append(ids[: limit - 1], END_ID).astype(np.int32)
            truncated = True
        encoded.append((ids, truncated))
    return encoded


def model_for_tokenizer(model, tokenizer):
    """Returns the model that decodes the ids of a tokenizer's sources."""
    if tokenizer.source.num_tags == 2:
        return with_target_language(model)
    return model


def translator_class():
    """Returns Translator or, on JAX, JaxTranslator."""
    # Not at the top: JAX needs no TensorFlow.
    if keras.backend.backend() == "jax":
        from export.translators.jax_translator import JaxTranslator

        return JaxTranslator
    from export.translators.translator import Translator

    return Translator


def _first_unknown_character(tokenizer, text):
    """Returns the character after the longest known beginning of a text."""
    # All beginnings, since some characters, such as the letters of a Korean
    # syllable, are known only together.
    beginnings = [text[:length] for length in range(len(text))]
    rows = tokenizer.encode(beginnings)
    known_lengths = [i for i, ids in enumerate(rows) if UNKNOWN_ID not in ids]
    return text[max(known_lengths)]
