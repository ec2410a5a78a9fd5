"""From attention between pieces to links between words."""

import functools
import re

import numpy as np
import sentencepiece

# SentencePiece's mark of a word's beginning.
SPACE = "\u2581"


def words_of_pieces(pieces):
    """Returns the number of each piece's word.

    A word is what the text has between white space, so what is written
    without any, such as Chinese, is one word.

    Args:
        pieces: list of str, such as "\u2581the"; none that stands for an end.

    Returns:
        A list of int from 0, ascending; a lone space belongs to the next
        word.
    """
    words, word, begins = [], -1, True
    for piece in pieces:
        begins = begins or piece.startswith(SPACE)
        if begins and piece.strip(SPACE):
            word, begins = word + 1, False
        words.append(word + begins)
    # A space at the very end begins no word.
    return [max(min(each, word), 0) for each in words]


_END = "</s>"
# What Python takes for white space, but for the control characters that
# SentencePiece's normalisation drops.
_WHITE_SPACE = re.compile(r"[^\S\x0b\x1c-\x1f\x85]+")


def word_alignment(text, source_pieces, target_pieces, attention):
    """Links each target piece's word to the word it attends to most.

    The end id and padding are no words: attention to them does not count.

    Args:
        text: the source.
        source_pieces: list of str; what follows "</s>" or "" is left out.
        target_pieces: the same.
        attention: float [T, S]; target pieces by source pieces.

    Returns:
        Tuple of pairs (source word, target word), each once, in ascending
        order. Words are what white space separates, counted from 0.
    """
    source = _before_end(source_pieces)
    target = _before_end(target_pieces)
    owners = _owners(text)
    if not source or not target or not owners:
        return ()
    nearest = np.argmax(attention[: len(target), : len(source)], axis=1)
    source_words = [
        owners[min(word, len(owners) - 1)] for word in words_of_pieces(source)
    ]
    links = {
        (source_words[place], word)
        for place, word in zip(nearest.tolist(), words_of_pieces(target))
    }
    return tuple(sorted(links))


def _before_end(pieces):
    ends = [i for i, piece in enumerate(pieces) if piece in ("", _END)]
    return pieces[: ends[0]] if ends else pieces


def _owners(text):
    """Returns which word of the text each word for the tokenizer is from.

    Normalisation makes several words of some, and none of others.
    """
    normaliser = _normaliser()
    return [
        number
        for number, word in enumerate(_words(text))
        for part in normaliser.normalize(word).split(SPACE)
        if part
    ]


@functools.cache
def _normaliser():
    return sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False
    )


def _words(text):
    return [word for word in _WHITE_SPACE.split(text) if word]
