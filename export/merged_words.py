"""Attention between words, from attention between pieces of words."""

import dataclasses

import numpy as np

from export.words_of_pieces import SPACE, words_of_pieces

_SPECIAL = ("<s>", "</s>")


def merged_words(maps):
    """Merges pieces to words: keys are summed, queries averaged.

    What a word is attended to is the sum over its pieces; what it attends to
    is the mean over its pieces. So every row sums to 1 as before. The begin
    and the end stand alone. Text without white space is one word.

    Args:
        maps: AttentionMaps of pieces.

    Returns:
        AttentionMaps of words; its tokens are without "\u2581".
    """
    source, source_words = _words(maps.source_tokens)
    target, target_words = _words(maps.target_tokens)
    inputs, input_words = _words(maps.target_inputs)
    return dataclasses.replace(
        maps,
        source_tokens=source_words,
        target_tokens=target_words,
        target_inputs=input_words,
        encoder=_merged(maps.encoder, source, source),
        decoder=_merged(maps.decoder, target, inputs),
        cross=_merged(maps.cross, target, source),
    )


def _words(tokens):
    """Returns the number of each token's word, and the words."""
    first = int(tokens[:1] == _SPECIAL[:1])
    last = len(tokens) - (tokens[-1:] == _SPECIAL[1:])
    inner = words_of_pieces(tokens[first:last])
    numbers = [*range(first), *(number + first for number in inner)]
    if last < len(tokens):
        numbers.append(numbers[-1] + 1 if numbers else 0)
    words = [""] * (numbers[-1] + 1)
    for number, token in zip(numbers, tokens):
        words[number] += token
    return np.array(numbers), tuple(
        word.replace(SPACE, " ").strip() for word in words
    )


def _merged(weights, queries, keys):
    """[..., Q, M] to [..., words of Q, words of M]."""
    of_queries = _members(queries)
    of_queries /= of_queries.sum(axis=1, keepdims=True)
    merged = of_queries @ weights.astype(np.float64) @ _members(keys).T
    return merged.astype(np.float32)


def _members(numbers):
    """Float64 [words, pieces]: 1 where a piece is of a word."""
    return (np.arange(numbers[-1] + 1)[:, None] == numbers).astype(np.float64)
