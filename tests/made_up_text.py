"""Sentences of made-up words, and vocabularies of them: no file is read."""

import functools
import random

from trainers.data.vocabulary import train_vocabulary

CONSONANTS = "bcdfgklmnprst"
VOWELS = "aeiouéà"


def _word(generator):
    return "".join(
        generator.choice(CONSONANTS) + generator.choice(VOWELS)
        for _ in range(generator.randint(1, 4))
    )


@functools.cache
def sentences(count: int = 100, seed: int = 1) -> list[str]:
    """Up to four words and a full stop each."""
    generator = random.Random(seed)
    words = [_word(generator) for _ in range(60)]
    return [
        " ".join(generator.choices(words, k=generator.randint(1, 4))) + "."
        for _ in range(count)
    ]


@functools.cache
def vocabulary(size: int = 200, seed: int = 1) -> bytes:
    """A SentencePiece model of a hundred such sentences."""
    return train_vocabulary(sentences(100, seed), size)


@functools.cache
def byte_vocabulary(size: int = 320) -> bytes:
    """One with byte tokens, which leaves text unchanged."""
    rules = {"normalization": "identity", "byte_fallback": True}
    return train_vocabulary(sentences(100), size, **rules)
