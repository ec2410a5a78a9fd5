"""BPE dropout: words in random tokens (Provilkov et al. 2020).

SentencePiece has it too, but segments differently in each process.
"""

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from export.common.errors import InputError
from export.tokenizers import sentencepiece_model
from export.tokenizers.tags import SPACE

# Of a merge, as in section 5.1.
_DROPOUT = 0.1
# Random segmentations of a word; they are computed once.
_NUM_VARIANTS = 64
_CACHE_SIZE = 1 << 18


class BpeDropout:
    """Tokenizes as the function `encode`, but segments words at random.

    `encode` turns a list of str into int32 arrays of ids of the SentencePiece
    model `proto`, which must be BPE, else InputError.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Iterable[np.ndarray]],
        proto: bytes,
        dropout: float = _DROPOUT,
    ):
        model = sentencepiece_model.ModelProto.FromString(proto)
        if model.trainer_spec.model_type != model.trainer_spec.BPE:
            raise InputError(
                "--segmentations needs a vocabulary of the type BPE; omit it, "
                "or --vocabulary."
            )
        self._encode, self._dropout = encode, dropout
        # Bytes, tags and the end are no text to merge.
        self._texts = [
            piece.piece if piece.type == piece.NORMAL else ""
            for piece in model.pieces
        ]
        self._scores = {
            piece.piece: (piece.score, token_id)
            for token_id, piece in enumerate(model.pieces)
            if piece.type == piece.NORMAL
        }
        segment = functools.lru_cache(_CACHE_SIZE)(self._segment)
        self._segment = segment  # type: ignore[method-assign]

    def encode(
        self, texts: Sequence[str], generator: np.random.Generator
    ) -> list[np.ndarray]:
        """Tokenizes a list of str, with random numbers of a NumPy Generator."""
        encoded = [self._words(ids.tolist()) for ids in self._encode(texts)]
        variants = iter(
            generator.integers(
                _NUM_VARIANTS, size=sum(map(len, encoded))
            ).tolist()
        )
        return [
            np.fromiter(
                itertools.chain.from_iterable(
                    map(self._segment, words, variants)
                ),
                np.int32,
            )
            for words in encoded
        ]

    def _words(self, ids):
        """Divides a list of ids into tuples, one for each word."""
        words, word, before = [], [], ""
        for token_id in ids:
            text = self._texts[token_id]
            if word and (not text or not before or text[0] == SPACE):
                words.append(tuple(word))
                word = []
            word.append(token_id)
            before = text
        return [*words, tuple(word)]

    def _segment(self, word, variant):
        """Returns the ids of a random segmentation, the same for a variant."""
        symbols = [*"".join(self._texts[token_id] for token_id in word)]
        # As the characters may have no tokens of their own.
        if not symbols or any(each not in self._scores for each in symbols):
            return word
        # Strings are hashed with SHA-512, the same in every process.
        generator = random.Random(f"{word} {variant}")
        while merges := [
            (-self._scores[one + other][0], position)
            for position, (one, other) in enumerate(itertools.pairwise(symbols))
            if one + other in self._scores
            and generator.random() >= self._dropout
        ]:
            _, position = min(merges)
            symbols[position : position + 2] = [
                symbols[position] + symbols[position + 1]
            ]
        return [self._scores[symbol][1] for symbol in symbols]
