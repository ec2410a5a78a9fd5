"""Tokenizes text for every translator with a model in this process."""

import numpy as np

from export.translators.text_ids import (
    UnknownCharacter,
    list_of_texts,
    pad_ids,
    truncation_limit,
)
from export.translators.text_ops import encode_texts
from export.translators.text_translator import Sentence, TextTranslator
from keras_transformer.config import UNKNOWN_ID

MAX_SOURCE_TOKENS = 512


class ModelTranslator(TextTranslator):
    """A TextTranslator that tokenizes text itself.

    Args:
        tokenizer: Tokenizer of the vocabulary, or TokenizerPair.
        config: TransformerConfig with the search's settings.
        max_source_tokens: maximum number of ids of a source, the end id
            included, at most the learned positions; 512 by default.
    """

    def __init__(self, tokenizer, config, max_source_tokens=None):
        self.tokenizer = tokenizer
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self.beam_size = config.beam_size
        self._config = config

    @property
    def source_limit(self):
        """Maximum number of ids of a source, the end id included."""
        return truncation_limit(self._config, self.max_source_tokens)

    @property
    def target_limit(self):
        """Maximum number of ids of a translation, the end id included."""
        longest = self.source_limit + self._config.max_extra_tokens
        return truncation_limit(self._config, longest)

    def normalize_prefixes(self, prefixes, keep_long=True):
        r"""Returns prefixes in the spelling of translations, a list of str.

        The vocabulary may spell characters differently ("\ufb01" as "fi"), and
        has single spaces and none at the ends. A prefix above the maximum
        length of a translation is unchanged, or truncated if not `keep_long`.
        Raises UnknownCharacter if the vocabulary lacks a character.
        """
        rows = self._encode_prefixes(prefixes)
        if not rows:
            return []
        texts = self.tokenizer.target.decode(pad_ids([ids for ids, _ in rows]))
        return [
            prefix if truncated and keep_long else text
            for prefix, text, (_, truncated) in zip(prefixes, texts, rows)
        ]

    def _sentences(self, texts):
        return [
            Sentence(text, ids, len(ids), truncated)
            for text, (ids, truncated) in zip(
                texts,
                encode_texts(self.tokenizer.source, texts, self.source_limit),
            )
        ]

    def _prefix_ids(self, prefixes):
        return [ids for ids, _ in self._encode_prefixes(prefixes)]

    def _encode_prefixes(self, prefixes):
        """Returns pairs: ids without the end id, and whether truncated."""
        tokenizer = self.tokenizer.target
        prefixes = list_of_texts(prefixes, "prefixes")
        rows = encode_texts(tokenizer, prefixes, self.target_limit)
        for index, (ids, _) in enumerate(rows):
            if UNKNOWN_ID in ids:
                character = _first_unknown(tokenizer, prefixes[index])
                raise UnknownCharacter(index, character)
        return [(ids[:-1], truncated) for ids, truncated in rows]

    def _decode(self, tokens):
        """Returns the texts of int32 [B, N, T], B lists of N str."""
        rows, n, length = tokens.shape
        tokens = np.asarray(tokens).reshape(rows * n, length)
        texts = self.tokenizer.target.decode(tokens)
        return [texts[row * n : (row + 1) * n] for row in range(rows)]


def _first_unknown(tokenizer, text):
    """Returns the character after the longest known beginning of `text`."""
    # Characters may be known only together, as the parts of a Korean syllable.
    beginnings = [text[:end] for end in range(1, len(text) + 1)]
    known = [UNKNOWN_ID not in ids for ids in tokenizer.encode(beginnings)]
    last = max((end for end, each in enumerate(known, 1) if each), default=0)
    return text[last]
