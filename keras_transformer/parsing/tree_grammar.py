"""The grammar of linearized trees: section 6.3, after Vinyals et al. 2015.

A tree over n words is generated as labeled brackets and one tag per word,
without the words: "(S (NP DT NN )NP (VP VBZ )VP )S".

Letters: B sentences, K beams, L labels, G tags, D maximum depth.
"""

import typing

import numpy as np
from keras import ops

from keras_transformer.config import END_ID
from keras_transformer.ids import arange
from keras_transformer.types import Tensor

# The ids of opening brackets, closing brackets and tags follow the special ids.
FIRST_ID = END_ID + 1

# Types of tokens: special, end, opening bracket, closing bracket, tag.
_CLOSING = 3


class TreeState(typing.NamedTuple):
    """State of a hypothesis; [B] before the first token, then [B, K]."""

    words_left: Tensor  # int32, words without a tag
    tokens_left: Tensor  # int32, up to the maximum, including the end
    stack: Tensor  # int32 [B, K, D], labels of open brackets
    depth: Tensor  # int32, number of open brackets
    run: Tensor  # int32, number of opening brackets since any other token
    is_empty: Tensor  # boolean, whether there is no token yet


class TreeGrammar:
    """Grammar that allows only trees over exactly a sentence's words.

    Brackets balance, with the same label at both ends; none is empty; one
    encloses all others; there are as many tags as words. A sentence of one word
    may be its tag alone. Every hypothesis can be completed: a bracket opens
    only if a word and enough tokens to tag all words and close it are left.

    Args:
        num_labels: L. Opening brackets have the first ids from `FIRST_ID`, then
            closing brackets.
        num_tags: G; tags have the ids after those of brackets.
        max_depth: D, maximum number of open brackets.
        max_run: maximum number of consecutive opening brackets, which also
            bounds chains of single children.
    """

    def __init__(
        self, num_labels: int, num_tags: int, max_depth: int, max_run: int
    ):
        self.num_labels = num_labels
        self.max_depth = max_depth
        self.max_run = max_run
        counts = [END_ID, 1, num_labels, num_labels, num_tags]
        self._type_of_id = np.repeat(np.arange(len(counts)), counts)
        # Labels of closing brackets; arbitrary for other ids.
        ids = np.arange(len(self._type_of_id))
        self._label_of_id = ids - FIRST_ID - num_labels

    def start(self, num_words: Tensor, max_lengths: Tensor) -> TreeState:
        """Returns the TreeState for `Constraints.grammar`.

        `num_words`, at least 1, and `max_lengths` of the search, at least
        `num_words` + 3, are int32 [B].
        """
        zeros = ops.zeros_like(num_words)
        return TreeState(
            words_left=num_words,
            tokens_left=max_lengths,
            stack=ops.zeros((*ops.shape(num_words), self.max_depth), "int32"),
            depth=zeros,
            run=zeros,
            is_empty=ops.ones_like(num_words, "bool"),
        )

    def allowed(self, state: TreeState) -> Tensor:
        """Returns the tokens allowed next: boolean [B, K, V]."""
        has_words, inside = state.words_left > 0, state.depth > 0
        # Tokens needed to complete a tree with one more open bracket.
        needed = state.words_left + state.depth + 2
        opens = has_words & (inside | state.is_empty)
        opens &= state.tokens_left > needed
        opens &= (state.depth < self.max_depth) & (state.run < self.max_run)
        is_one_word = state.is_empty & (state.words_left == 1)
        tags = has_words & (inside | is_one_word)
        # The outermost bracket encloses all words.
        closes = inside & (state.run == 0) & ((state.depth > 1) | ~has_words)
        ends = ~state.is_empty & ~has_words & ~inside
        special = ops.zeros_like(ends)
        types = ops.stack([special, ends, opens, closes, tags], axis=-1)
        allowed = ops.take(types, self._type_of_id, axis=-1)
        innermost = self._is_depth(state.depth - 1)  # [B, K, D]
        label = ops.sum(ops.where(innermost, state.stack, 0), axis=-1)
        same_label = ops.equal(label[..., None], self._label_of_id)
        return allowed & (same_label | (self._type_of_id != _CLOSING))

    def advance(self, state: TreeState, tokens: Tensor) -> TreeState:
        """Returns the state after int32 [B, K] tokens."""
        symbols = tokens - FIRST_ID
        opens = (symbols >= 0) & (symbols < self.num_labels)
        is_tag = symbols >= 2 * self.num_labels
        closes = (symbols >= self.num_labels) & ~is_tag
        change = ops.cast(opens, "int32") - ops.cast(closes, "int32")
        pushed = opens[..., None] & self._is_depth(state.depth)
        return TreeState(
            words_left=state.words_left - ops.cast(is_tag, "int32"),
            tokens_left=state.tokens_left - 1,
            stack=ops.where(pushed, symbols[..., None], state.stack),
            depth=state.depth + change,
            run=ops.where(opens, state.run + 1, 0),
            is_empty=ops.zeros_like(state.is_empty),
        )

    def _is_depth(self, depth):
        """Returns the mask of the stack entry at a depth: boolean [B, K, D]."""
        return arange(self.max_depth) == depth[..., None]
