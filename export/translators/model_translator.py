"""Text to ids and what limits it, for every translator with a model here."""

import numpy as np

from export.translators.text_ids import (
    UnknownCharacter,
    list_of_texts,
    padded,
    source_limit,
)
from export.translators.text_translator import Sentence, TextTranslator
from export.translators.truncation import cut_ids
from keras_transformer.config import UNKNOWN_ID

MAX_SOURCE_TOKENS = 512


class ModelTranslator(TextTranslator):
    """A TextTranslator that makes ids of text itself.

    Args:
        tokenizer: Tokenizer of the vocabulary, or TokenizerPair.
        config: TransformerConfig, with the search's numbers in it.
        max_source_tokens: sources are truncated to this many ids, the end id
            counted, or to the learned positions where they are fewer; 512 by
            default.

    Attributes: as given.
    """

    def __init__(self, tokenizer, config, max_source_tokens=None):
        self.tokenizer = tokenizer
        self.max_source_tokens = max_source_tokens or MAX_SOURCE_TOKENS
        self.beam_size = config.beam_size
        self._config = config

    @property
    def source_limit(self):
        """The most ids of a source, the end id counted."""
        return source_limit(self._config, self.max_source_tokens)

    @property
    def target_limit(self):
        """The most ids of a translation, the end id counted."""
        longest = self.source_limit + self._config.max_output_extra
        return source_limit(self._config, longest)

    def as_spelt(self, prefixes):
        """Returns prefixes as translations begin with them: a list of str.

        The vocabulary spells some characters otherwise ("\ufb01" as "fi"), has
        one space where there are several, and none at the ends. One that is
        longer than a translation may be is returned as it is.

        Args:
            prefixes: list of str.

        Raises:
            UnknownCharacter: a prefix has one.
        """
        known = self._known_prefixes(prefixes)
        return [
            prefix if is_cut else text
            for prefix, text, (_, is_cut) in zip(
                prefixes, self.spell(prefixes), known
            )
        ]

    def spell(self, prefixes):
        """Returns what `as_spelt` does, but the beginning of too long ones."""
        rows = self._prefix_ids(prefixes)
        return self.tokenizer.target.decode(padded(rows)) if rows else []

    def _sentences(self, texts):
        return [
            Sentence(text, ids, len(ids), is_cut)
            for text, (ids, is_cut) in zip(
                texts, cut_ids(self.tokenizer.source, texts, self.source_limit)
            )
        ]

    def _prefix_ids(self, prefixes):
        return [ids for ids, _ in self._known_prefixes(prefixes)]

    def _known_prefixes(self, prefixes):
        """Returns a list of pairs: ids without the end id, and if cut."""
        tokenizer = self.tokenizer.target
        prefixes = list_of_texts(prefixes, "prefixes")
        found = cut_ids(tokenizer, prefixes, self.target_limit)
        for place, (ids, _) in enumerate(found):
            if UNKNOWN_ID in ids:
                character = _first_unknown(tokenizer, prefixes[place])
                raise UnknownCharacter(place, character)
        return [(ids[:-1], is_cut) for ids, is_cut in found]

    def _texts(self, tokens):
        """Returns the texts of int32 [B, N, T]: a list of lists of N str."""
        rows, n, length = tokens.shape
        tokens = np.asarray(tokens).reshape(rows * n, length)
        texts = self.tokenizer.target.decode(tokens)
        return [texts[row * n : (row + 1) * n] for row in range(rows)]


def _first_unknown(tokenizer, text):
    """Returns the character from which on no beginning of `text` is known."""
    # One by one some are unknown that are known together, such as the parts
    # of a Korean syllable.
    beginnings = [text[:end] for end in range(1, len(text) + 1)]
    known = [UNKNOWN_ID not in ids for ids in tokenizer.encode(beginnings)]
    last = max((end for end, each in enumerate(known, 1) if each), default=0)
    return text[last]
