"""Noise in the sources of synthetic pairs: dropped and moved words, a tag."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trainers.synthesis.workers import SynthesisOptions


def add_word_noise(
    text: str, line_index: int, options: "SynthesisOptions"
) -> str:
    """Drops and permutes words of a source; prepends the tag."""
    if options.word_drop or options.word_swap:
        generator = np.random.default_rng((options.seed, line_index))
        words = drop_words(text.split(), options.word_drop, generator)
        text = " ".join(permute_words(words, options.word_swap, generator))
    return f"{options.tag} {text}" if options.tag else text


def drop_words(
    words: Sequence[str], probability: float, generator: np.random.Generator
) -> list[str]:
    """Drops each word with a probability, but never all words."""
    keep = generator.random(len(words)) >= probability
    keep[generator.integers(len(words))] |= not keep.any()
    return list(itertools.compress(words, keep))


def permute_words(
    words: Sequence[str], distance: int, generator: np.random.Generator
) -> list[str]:
    """Moves words by at most `distance` (Lample et al. 2018, section 2.3)."""
    offsets = generator.uniform(0, distance + 1, len(words))
    keys = np.arange(len(words)) + offsets
    return [words[index] for index in np.argsort(keys, kind="stable")]
