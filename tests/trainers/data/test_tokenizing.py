import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.data import shards
from trainers.data.shards import TokenizedChunk, tokenize

END = 3


class _Letters:
    """A codec whose ids are the letters' codes; it has none for a z."""

    def encode_sources(self, texts):
        return self.encode(texts)

    def encode_targets(self, texts):
        return self.encode(texts)

    def explain_unencodable(self, target):
        return f"{target} has a z" if "z" in target else ""

    def encode(self, texts):
        return [np.array([*map(ord, text), END], np.int32) for text in texts]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(shards, "_CHUNK", 3)


def _texts(chunks):
    """The pairs as text again."""
    pairs = []
    for chunk in chunks:
        ids = iter(chunk.ids.tolist())
        for lengths in chunk.lengths.tolist():
            pair = [[next(ids) for _ in range(n)] for n in lengths]
            assert all(side[-1] == END for side in pair)
            pairs.append(tuple("".join(map(chr, s[:-1])) for s in pair))
        assert next(ids, None) is None
    return pairs


TEXT = st.text("abc", max_size=6)
TARGET = st.text("abz", max_size=4)


@given(st.lists(st.tuples(TEXT, TARGET)), st.integers(1, 7), st.integers(1, 4))
def test_pairs_come_in_order_without_long_and_unseen_ones(
    pairs, max_tokens, workers
):
    chunks = list(tokenize(iter(pairs), _Letters(), max_tokens, workers))
    expected = [
        pair
        for pair in pairs
        if max(map(len, pair)) + 1 <= max_tokens and "z" not in pair[1]
    ]
    assert _texts(chunks) == expected
    assert [chunk.num_read for chunk in chunks[:-1]] == [3] * (len(chunks) - 1)
    assert all(chunk.ids.dtype == np.int32 for chunk in chunks)
    if chunks:
        whole = TokenizedChunk.concatenate(chunks)
        assert _texts([whole]) == expected
        assert whole.num_read == len(pairs)
        assert whole.unencodable == [
            (index, f"{target} has a z")
            for index, (_, target) in enumerate(pairs)
            if "z" in target
        ]


@pytest.mark.parametrize("workers", [1, 3])
def test_at_most_two_chunks_per_thread_are_held(workers):
    read, yielded = [0], 0

    def endless():
        while True:
            read[0] += 1
            yield f"s{read[0]}", f"t{read[0]}"

    chunks = tokenize(endless(), _Letters(), 99, workers)
    for _ in range(20):
        yielded += next(chunks).read
        assert read[0] - yielded == (2 * workers - 1) * 3
    chunks.close()
    assert read[0] - yielded == (2 * workers - 1) * 3


def test_threads_run_in_parallel():
    """Neither gets past the barrier without the other."""
    barrier = threading.Barrier(2)

    class Meeting(_Letters):
        def encode(self, texts):
            barrier.wait(timeout=30)
            return super().encode(texts)

    pairs = [("a", "b")] * 12
    assert _texts(tokenize(iter(pairs), Meeting(), 9, 2)) == pairs


def test_errors_of_the_pairs_come_after_what_is_whole():
    def broken():
        yield from [("a", "b")] * 30
        raise InputError("Line 31 of x.en is not UTF-8.")

    chunks = tokenize(broken(), _Letters(), 9, 2)
    assert [next(chunks).read for _ in range(7)] == [3] * 7
    with pytest.raises(InputError, match="Line 31"):
        list(chunks)


def test_errors_of_a_thread_are_raised_and_end_all_threads():
    class Broken(_Letters):
        def encode(self, texts):
            if "bad" in texts:
                raise MemoryError
            return super().encode(texts)

    pairs = [("a", "b")] * 9 + [("bad", "b")] + [("a", "b")] * 99
    before = threading.enumerate()
    with pytest.raises(MemoryError):
        list(tokenize(iter(pairs), Broken(), 9, 2))
    assert set(threading.enumerate()) <= set(before)
