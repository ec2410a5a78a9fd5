"""Which word each token is of, and what the encoder made of the next one.

Of parsers, which say one tag for each word of the source.
"""

import typing

from keras import ops

from keras_transformer.config import END_ID


def source_words(config, ids, positions=None):
    """Returns the word that each source token is of, from 0.

    Args:
        config: TransformerConfig.
        ids: int32 [B, S].
        positions: int32 [B, S], of packed rows, 0 where a sentence begins;
            None where each row is one.

    Returns:
        int32 [B, S]; None where the config counts no words.
    """
    if not config.counts_words:
        return None
    # The end is there for a decoder that has said all words.
    begins = ops.logical_or(ids >= config.source_words_from, ids == END_ID)
    return ops.maximum(_begun(begins, positions) - 1, 0)


def words_said(config, ids, positions=None):
    """Returns how many words a decoder has said with each target token.

    Args:
        config: TransformerConfig.
        ids: int32 [B, T].
        positions: as for `source_words`.

    Returns:
        int32 [B, T]; None where the config counts no words.
    """
    if not config.counts_words:
        return None
    return _begun(says_word(config, ids), positions)


def says_word(config, ids):
    """Returns which target ids say a word of the source: boolean."""
    return ids >= config.target_words_from


def _begun(begins, positions):
    """Counts the words that have begun, up to each token and with it."""
    begins = ops.cast(begins, "int32")
    begun = ops.cumsum(begins, axis=1)
    if positions is None:
        return begun
    # Where the sentence of each token begins.
    first = ops.arange(ops.shape(begins)[1])[None] - positions
    return begun - ops.take_along_axis(begun - begins, first, axis=1)


class SourceWords(typing.NamedTuple):
    """What the encoder made of a source, to be looked up by words.

    Attributes:
        memory: float [B, S, D], of the encoder.
        words: int32 [B, S], the word that each token is of.
        mask: boolean, broadcastable to [B, T, S], which tokens a target
            token may look at.
    """

    memory: typing.Any
    words: typing.Any
    mask: typing.Any

    @classmethod
    def of(cls, config, memory, source, mask, positions=None):
        """Makes them, or () where the config does not ask for them.

        Args:
            config: TransformerConfig.
            memory: float [B, S, D].
            source: int32 [B, S].
            mask: boolean, broadcastable to [B, T, S].
            positions: as for `source_words`.
        """
        if config.positions != "next-word":
            return ()
        return cls(memory, source_words(config, source, positions), mask)

    def after(self, said):
        """Returns the states of the words that are next.

        Args:
            said: int32 [B, T], how many words have been said.

        Returns:
            float [B, T, D], the mean over the pieces of the word; 0 where
            there is no such word.
        """
        of_word = ops.equal(said[:, :, None], self.words[:, None, :])
        of_word = ops.logical_and(of_word, self.mask)
        shares = ops.cast(of_word, self.memory.dtype)
        pieces = ops.maximum(ops.sum(shares, axis=-1, keepdims=True), 1)
        return ops.matmul(shares / pieces, self.memory)
