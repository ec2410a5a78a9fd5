"""What backends with a model in this process share: text to ids and back."""

import typing
from collections.abc import Sequence

import keras_transformer as kt
from export.translators.backend import Backend
from export.translators.batches import pad_ids, truncation_limit
from export.translators.languages import Languages
from export.translators.translation import (
    Sentence,
    UnknownCharacterError,
    encode_texts,
)
from keras_transformer.config import PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.target_language import with_target_language
from keras_transformer.types import TransformerLike

if typing.TYPE_CHECKING:
    from export.translators.languages import Tokenizers

MAX_SOURCE_TOKENS = 512


class ModelBackend(Backend):
    """Base of backends that tokenize texts in Python.

    Args:
        tokenizer: Tokenizer of the vocabulary, or TokenizerPair.
        config: TransformerConfig with the search's settings.
        max_source_tokens: maximum number of ids of a source, the end id
            included; 512 by default.
    """

    def __init__(
        self,
        tokenizer: "Tokenizers",
        config: kt.TransformerConfig,
        max_source_tokens: int | None = None,
    ):
        self.tokenizer = tokenizer
        self.languages = Languages.from_tokenizer(tokenizer)
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self.beam_size = config.beam_size
        self._config = config

    @property
    def source_limit(self) -> int:
        """`max_source_tokens`, at most the number of learned positions."""
        return truncation_limit(self._config, self.max_source_tokens)

    @property
    def target_limit(self) -> int:
        """Maximum number of ids of a translation, the end id included."""
        longest = self.source_limit + self._config.max_extra_tokens
        return truncation_limit(self._config, longest)

    def tokenize(self, texts: Sequence[str]) -> list[Sentence]:
        """See the base class."""
        return encode_texts(self.tokenizer.source, texts, self.source_limit)

    def tokenize_targets(self, translations: Sequence[str]) -> list[Sentence]:
        """See the base class."""
        return encode_texts(
            self.tokenizer.target, translations, self.target_limit
        )

    def encode_prefixes(self, prefixes: Sequence[str]) -> list[Sentence]:
        """See the base class."""
        sentences = self.tokenize_targets(prefixes)
        for index, sentence in enumerate(sentences):
            if UNKNOWN_ID in sentence.ids:
                raise UnknownCharacterError(
                    index,
                    _first_unknown_character(
                        self.tokenizer.target, sentence.text
                    ),
                )
        if not sentences:
            return []
        texts = self.tokenizer.target.decode(
            pad_ids([sentence.ids for sentence in sentences])
        )
        return [
            sentence._replace(text=text, ids=sentence.ids[:-1])
            for sentence, text in zip(sentences, texts)
        ]

    def search_ids(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """See the base class."""
        rows = (row[row != PAD_ID] for row in self._search_best(sentences))
        return [Sentence("", row, len(row), False) for row in rows]

    def _search_best(self, sentences):
        """Returns the ids of the best translations, int32 [B, T]."""
        raise self._unsupported_error("returns ids")


def model_for_tokenizer(
    model: TransformerLike, tokenizer: "Tokenizers"
) -> TransformerLike:
    """Returns the model that decodes the ids of a tokenizer's sources."""
    if tokenizer.source.has_both_tags:
        return with_target_language(model)
    return model


def _first_unknown_character(tokenizer, text):
    """Returns the character after the longest known beginning of a text."""
    # All beginnings, since some characters, such as the letters of a Korean
    # syllable, are known only together.
    beginnings = [text[:length] for length in range(len(text))]
    rows = tokenizer.encode(beginnings)
    known_lengths = [i for i, ids in enumerate(rows) if UNKNOWN_ID not in ids]
    return text[max(known_lengths)]
