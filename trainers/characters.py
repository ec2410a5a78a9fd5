"""Which characters a vocabulary must have a piece for."""

import collections
import itertools

import numpy as np
import sentencepiece

# Fewer say nothing of how a character is translated.
_LEAST = 3
_SENTENCES = 10_000
_CODE_POINTS = 0x110000
# SentencePiece writes the first for white space, also within what U+FDFA and
# U+FDFB become, and the second for the unknown; it takes neither as a
# character.
_RESERVED = "\u2581\u2585"


def frequent_characters(sentences, most):
    """Returns the characters that stand somewhere, the most frequent ones.

    SentencePiece alone leaves out those that make up the last 0.05 % of a
    text: in everyday sentences most digits, brackets and capitals.

    Args:
        sentences: iterable of str.
        most: how many characters are returned at most.

    Returns:
        str of the characters, most frequent first, as they are after
        SentencePiece's normalisation; none that occurs less than three times,
        no white space and none that SentencePiece reserves.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False
    )
    counts = _code_points(iter(sentences))
    found = collections.Counter()
    for code in np.flatnonzero(counts).tolist():
        for character in normaliser.normalize(chr(code)):
            found[character] += int(counts[code])
    for character in _RESERVED:
        del found[character]
    return "".join(
        character
        for character, count in found.most_common(most)
        if count >= _LEAST
    )


def _code_points(sentences):
    """Returns int64 [0x110000]: how often each code point occurs."""
    counts = np.zeros(_CODE_POINTS, np.int64)
    while part := list(itertools.islice(sentences, _SENTENCES)):
        text = "".join(part).encode("utf-32-le")
        codes = np.frombuffer(text, np.uint32)
        counts += np.bincount(codes, minlength=_CODE_POINTS)
    # The tokenizer drops it, normalisation does not.
    counts[0] = 0
    return counts
