"""The grammar of linearised trees, against a plain reader and brute force."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_transformer.parsing.tree_grammar import FIRST_ID, TreeGrammar
from tests.keras_transformer import helpers

END = 3


def find_violation(tokens, words, labels, tags, max_depth, max_run):
    """Why tokens are not a tree over so many words; None if they are."""
    *symbols, last = tokens
    if last != END or END in symbols:
        return "end"
    stack, tagged, run, trees = [], 0, 0, 0
    for symbol in symbols:
        number = symbol - FIRST_ID
        if not 0 <= number < 2 * labels + tags:
            return "symbol"
        if trees:
            return "symbol after the tree"
        if number < labels:
            stack.append([number, 0])
            run += 1
            if run > max_run or len(stack) > max_depth:
                return "bound"
            continue
        run = 0
        if number < 2 * labels:
            if not stack or stack[-1][0] != number - labels:
                return "closing bracket"
            if not stack.pop()[1]:
                return "empty bracket"
        else:
            tagged += 1
        if stack:
            stack[-1][1] += 1
        else:
            trees += 1
    if stack or trees != 1:
        return "open brackets"
    return None if tagged == words else "number of words"


@pytest.mark.parametrize(
    "words, labels, tags, max_depth, max_run, limit",
    [
        (1, 1, 1, 2, 2, 7),
        (2, 1, 1, 3, 1, 7),
        (2, 2, 1, 2, 2, 6),
        (2, 1, 2, 9, 9, 6),
    ],
)
def test_it_allows_all_trees_and_nothing_else(
    words, labels, tags, max_depth, max_run, limit
):
    """Every row of symbols up to a length, by walking what is allowed."""
    grammar = TreeGrammar(labels, tags, max_depth, max_run)
    size = FIRST_ID + 2 * labels + tags
    found = set()
    state = grammar.start(
        ops.convert_to_tensor([words], "int32"),
        ops.convert_to_tensor([limit], "int32"),
    )
    rows = [((), type(state)(*[each[:, None] for each in state]))]
    while rows:
        tokens, state = rows.pop()
        allowed = helpers.to_numpy(grammar.allowed(state))[0, 0]
        assert allowed.shape == (size,)
        # Every hypothesis can be continued or ended.
        assert allowed.any()
        for token in np.flatnonzero(allowed).tolist():
            if token == END:
                found.add((*tokens, END))
            else:
                after = grammar.advance(state, ops.convert_to_tensor([[token]]))
                rows.append(((*tokens, token), after))
    symbols = range(FIRST_ID, size)
    expected = {
        (*row, END)
        for length in range(1, limit)
        for row in itertools.product(symbols, repeat=length)
        if not find_violation(
            (*row, END), words, labels, tags, max_depth, max_run
        )
    }
    assert found == expected
    assert expected
