"""Noise on the words of a source, and a word in front of it."""

import numpy as np


def add_noise(text, number, options):
    """Returns a source as the options disturb and mark it.

    What happens to a line depends on the seed and its number alone.

    Args:
        text: of the source.
        number: of its line, from 0.
        options: SynthesisOptions: word_drop, word_swap, tag and seed.
    """
    if options.word_drop or options.word_swap:
        generator = np.random.default_rng((options.seed, number))
        words = text.split()
        words = drop_words(words, options.word_drop, generator)
        text = " ".join(swap_words(words, options.word_swap, generator))
    return f"{options.tag} {text}" if options.tag else text


def drop_words(words, probability, generator):
    """Leaves words out at random, but never all of them.

    Args:
        words: list of str, at least one.
        probability: with which each is left out.
        generator: numpy's.

    Returns:
        A list of those that stay; where none would, of one that is drawn.
    """
    stays = generator.random(len(words)) >= probability
    stays[generator.integers(len(words))] |= not stays.any()
    return [word for word, kept in zip(words, stays) if kept]


def swap_words(words, places, generator):
    """Permutes words at random, none of them by more than so many places.

    As of Lample et al. (2018), section 2.3.

    Args:
        words: list of str.
        places: how far a word may move; 0 for not at all.
        generator: numpy's.

    Returns:
        A list of the same words.
    """
    keys = np.arange(len(words)) + generator.uniform(0, places + 1, len(words))
    return [words[place] for place in np.argsort(keys, kind="stable")]
