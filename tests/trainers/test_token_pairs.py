import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.errors import InputError
from trainers import token_pairs
from trainers.token_pairs import padded, tokenise_pairs


class _Letters:
    """A tokenizer whose ids are the letters' codes."""

    def __init__(self):
        self.calls = []

    def encode(self, texts):
        self.calls.append(len(texts))
        return [np.array([*map(ord, text), 3], np.int32) for text in texts]


def _texts(pairs):
    def side(flat, starts):
        sentences = [flat[a:b] for a, b in zip(starts, starts[1:])]
        assert all(ids[-1] == 3 for ids in sentences)
        return ["".join(map(chr, ids[:-1])) for ids in sentences]

    return list(
        zip(
            side(pairs.source, pairs.source_starts),
            side(pairs.target, pairs.target_starts),
        )
    )


TEXT = st.text("abc", max_size=6)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1), st.integers(1, 7))
def test_pairs_come_back_in_order_without_the_long_ones(pairs, max_tokens):
    kept = [pair for pair in pairs if max(map(len, pair)) + 1 <= max_tokens]
    if not kept:
        with pytest.raises(InputError, match=f"{len(pairs)} have more than"):
            tokenise_pairs(iter(pairs), _Letters(), max_tokens)
        return
    actual = tokenise_pairs(iter(pairs), _Letters(), max_tokens)
    assert _texts(actual) == kept
    assert len(actual) == len(kept)
    assert actual.dropped == len(pairs) - len(kept)
    assert actual.source_lengths.tolist() == [len(s) + 1 for s, _ in kept]
    assert actual.target_lengths.tolist() == [len(t) + 1 for _, t in kept]
    assert actual.source.dtype == actual.target.dtype == np.int32


def test_a_corpus_is_read_in_chunks(monkeypatch):
    monkeypatch.setattr(token_pairs, "_CHUNK", 3)
    tokenizer, done = _Letters(), []
    pairs = [(f"s{n}", f"t{n}") for n in range(8)]
    actual = tokenise_pairs(iter(pairs), tokenizer, 99, done.append)
    assert _texts(actual) == pairs
    assert done == [3, 3, 2]
    assert tokenizer.calls == [3, 3, 3, 3, 2, 2]


def test_no_pairs_at_all_are_refused():
    with pytest.raises(InputError, match="No sentence pair is left"):
        tokenise_pairs(iter([]), _Letters(), 9)


def test_padding_by_hand():
    flat = np.array([5, 3, 3, 6, 7, 3], np.int32)
    starts = np.array([0, 2, 3, 6])
    actual = padded(flat, starts, np.array([2, -1, 0, 1, 2]), 4)
    assert actual.tolist() == [
        [6, 7, 3, 0],
        [0, 0, 0, 0],
        [5, 3, 0, 0],
        [3, 0, 0, 0],
        [6, 7, 3, 0],
    ]
    assert actual.dtype == np.int32
