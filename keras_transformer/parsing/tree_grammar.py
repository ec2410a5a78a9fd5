"""The grammar of linearized trees: section 6.3, after Vinyals et al. 2015.

A tree over n words is generated as labeled brackets and one tag per word,
without the words: "(S (NP DT NN )NP (VP VBZ )VP )S".

Letters: B sentences, K beams, L labels, G tags, D maximum depth.
"""

import typing

import numpy as np
from keras import ops

from keras_transformer.config import END_ID

# The ids of opening brackets, closing brackets and tags follow the special ids.
FIRST_ID = END_ID + 1

# Index of closing brackets among the kinds of tokens.
_CLOSING = 3


class TreeState(typing.NamedTuple):
    """State of a hypothesis; [B] before the first token, then [B, K]."""

    words: typing.Any  # int32, words without a tag
    tokens: typing.Any  # int32, remaining tokens, including the end
    stack: typing.Any  # int32 [B, K, D], labels of open brackets
    depth: typing.Any  # int32, open brackets
    run: typing.Any  # int32, consecutive opening brackets at the end
    begun: typing.Any  # boolean, whether there is a token


class TreeGrammar:
    """Grammar that allows only trees over exactly a sentence's words.

    Brackets balance, with the same label at both ends; none is empty; one
    encloses all others; there are as many tags as words. A sentence of one word
    may be its tag alone. Every hypothesis can be completed: a bracket opens
    only if words remain for it, and tokens to tag all words and close all
    brackets.

    Args:
        labels: L. Opening brackets have the ids from `FIRST_ID` on, followed by
            the closing brackets.
        tags: G; the ids of tags follow those of brackets.
        max_depth: D, maximum number of open brackets.
        max_run: maximum number of consecutive opening brackets, which also
            bounds chains of single children.
    """

    def __init__(self, labels, tags, max_depth, max_run):
        self.labels = labels
        self.tags = tags
        self.max_depth = max_depth
        self.max_run = max_run
        # Kind of each token id, and label of each closing bracket's id.
        counts = [END_ID, 1, labels, labels, tags]
        self._kind_of = np.repeat(np.arange(len(counts)), counts)
        self._label_of = np.arange(len(self._kind_of)) - FIRST_ID - labels

    def start(self, words, max_lengths):
        """Returns the TreeState for `Constraints.grammar`.

        `words`, at least 1, and `max_lengths` of the search, at least `words` +
        3, are int32 [B].
        """
        zeros = ops.zeros_like(words)
        return TreeState(
            words=words,
            tokens=max_lengths,
            stack=ops.zeros((*ops.shape(words), self.max_depth), "int32"),
            depth=zeros,
            run=zeros,
            begun=ops.zeros_like(words, "bool"),
        )

    def allowed(self, state):
        """Returns the tokens allowed next: boolean [B, K, V]."""
        words_left = state.words > 0
        inside = state.depth > 0
        first = ~state.begun
        # Tokens needed to complete a tree with one more open bracket.
        needed = state.words + state.depth + 2
        opens = words_left & (inside | first) & (state.tokens > needed)
        opens &= (state.depth < self.max_depth) & (state.run < self.max_run)
        tags = words_left & (inside | (first & (state.words == 1)))
        # The outermost bracket encloses all words.
        closes = inside & (state.run == 0) & ((state.depth > 1) | ~words_left)
        ends = state.begun & ~words_left & ~inside
        special = ops.zeros_like(ends)
        kinds = ops.stack([special, ends, opens, closes, tags], axis=-1)
        innermost = self._is_depth(state.depth - 1)  # [B, K, D]
        label = ops.sum(ops.where(innermost, state.stack, 0), axis=-1)
        same = ops.equal(label[..., None], self._label_of)
        kinds = ops.take(kinds, self._kind_of, axis=-1)
        return kinds & (same | (self._kind_of != _CLOSING))

    def advance(self, state, tokens):
        """Returns the state after int32 [B, K] tokens."""
        number = tokens - FIRST_ID
        opens = (number >= 0) & (number < self.labels)
        closes = (number >= self.labels) & (number < 2 * self.labels)
        opened = ops.cast(opens, "int32")
        pushed = opens[..., None] & self._is_depth(state.depth)
        return TreeState(
            words=state.words - ops.cast(number >= 2 * self.labels, "int32"),
            tokens=state.tokens - 1,
            stack=ops.where(pushed, number[..., None], state.stack),
            depth=state.depth + opened - ops.cast(closes, "int32"),
            run=ops.where(opens, state.run + 1, 0),
            begun=ops.ones_like(state.begun),
        )

    def _is_depth(self, depth):
        """Returns the mask of the stack entry at a depth: boolean [B, K, D]."""
        return ops.arange(self.max_depth) == depth[..., None]
