"""From attention between pieces to links between words."""

import numpy as np


def word_alignment(source_words, target_words, attention):
    """Links each target piece's words to those it attends to most.

    The end id and padding are no words: attention to them does not count.

    Args:
        source_words: int32 [S, 2] of `word_numbers`: the first and the last
            word of each source piece, -1 of what is none.
        target_words: int32 [T, 2], the same of the translation.
        attention: float [T, S]; target pieces by source pieces.

    Returns:
        Tuple of pairs (source word, target word), each once, in ascending
        order. Words are what white space separates, counted from 0.
    """
    source, target = (
        np.flatnonzero(words[:, 0] >= 0) if len(words) else []
        for words in (source_words, target_words)
    )
    if not len(source) or not len(target):
        return ()
    nearest = source[attention[np.ix_(target, source)].argmax(axis=1)]
    links = {
        (source_word, target_word)
        for s, t in zip(nearest, target)
        for source_word in _covered(source_words[s])
        for target_word in _covered(target_words[t])
    }
    return tuple(sorted(links))


def _covered(words):
    first, last = words.tolist()
    return range(first, last + 1)
