import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.errors import InputError
from trainers.prepared import shards
from trainers.prepared.shards import TokenisedChunk, tokenise

END = 3


class _Letters:
    """A codec whose ids are the letters' codes; it has none for a z."""

    def encode_sources(self, texts):
        return self.encode(texts)

    def encode_targets(self, texts):
        return self.encode(texts)

    def unseen(self, target):
        return f"{target} has a z" if "z" in target else ""

    def encode(self, texts):
        return [np.array([*map(ord, text), END], np.int32) for text in texts]


class _Counted:
    """Pairs without end that know how many were asked for."""

    def __init__(self):
        self.read = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.read += 1
        return f"s{self.read}", f"t{self.read}"


@pytest.fixture(autouse=True)
def chunk(monkeypatch):
    """Small chunks, so that there are many."""
    monkeypatch.setattr(shards, "_CHUNK", 3)
    return 3


def _texts(chunks):
    """The pairs again, one after the other."""
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
# Autouse, and of no state that an example could leave behind.
PAIRS = st.lists(st.tuples(TEXT, TEXT))


@given(PAIRS, st.integers(1, 7), st.integers(1, 4))
def test_pairs_come_in_order_without_the_long_ones(pairs, max_tokens, workers):
    kept = [pair for pair in pairs if max(map(len, pair)) + 1 <= max_tokens]
    chunks = list(tokenise(iter(pairs), _Letters(), max_tokens, workers))
    assert _texts(chunks) == kept
    assert sum(chunk.read for chunk in chunks) == len(pairs)
    assert all(chunk.ids.dtype == np.int32 for chunk in chunks)
    assert all(chunk.lengths.shape[1:] == (2,) for chunk in chunks)


def test_the_chunks_do_not_depend_on_the_number_of_workers():
    pairs = [("a" * (n % 5), "b" * (n % 7)) for n in range(50)]
    one, *others = (
        [
            (chunk.read, chunk.ids.tolist(), chunk.lengths.tolist())
            for chunk in tokenise(iter(pairs), _Letters(), 6, workers)
        ]
        for workers in (1, 2, 5, 40)
    )
    assert len(one) == 17
    assert all(other == one for other in others)


def test_no_pairs_make_no_chunk():
    assert list(tokenise(iter([]), _Letters(), 9, 2)) == []


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_at_most_two_chunks_a_worker_are_held(chunk, workers):
    pairs, given_away = _Counted(), 0
    chunks = tokenise(pairs, _Letters(), 99, workers)
    for _ in range(20):
        given_away += next(chunks).read
        held = pairs.read - given_away
        # What was just given away may still be in the caller's hands.
        assert held + chunk == 2 * workers * chunk
    chunks.close()
    assert pairs.read - given_away == (2 * workers - 1) * chunk


def test_the_workers_run_side_by_side():
    """Neither gets past the barrier without the other."""
    barrier = threading.Barrier(2)

    class Meeting(_Letters):
        def encode(self, texts):
            barrier.wait(timeout=30)
            return super().encode(texts)

    pairs = [("a", "b")] * 12
    assert _texts(tokenise(iter(pairs), Meeting(), 9, 2)) == pairs


def test_what_is_wrong_with_the_pairs_is_said_as_they_say_it():
    def broken():
        yield from [("a", "b")] * 30
        raise InputError("Line 31 of x.en is not UTF-8.")

    chunks = tokenise(broken(), _Letters(), 9, 2)
    # What was whole before is given away first.
    assert [next(chunks).read for _ in range(7)] == [3] * 7
    with pytest.raises(InputError, match="Line 31"):
        list(chunks)


def test_what_goes_wrong_in_a_worker_is_not_lost():
    class Broken(_Letters):
        def encode(self, texts):
            if "bad" in texts:
                raise MemoryError
            return super().encode(texts)

    pairs = [("a", "b")] * 9 + [("bad", "b")] + [("a", "b")] * 99
    before = threading.enumerate()
    with pytest.raises(MemoryError):
        list(tokenise(iter(pairs), Broken(), 9, 2))
    # And no thread goes on.
    assert set(threading.enumerate()) <= set(before)


@given(st.lists(st.tuples(TEXT, st.text("az", max_size=3))))
def test_pairs_whose_target_has_no_ids_are_left_out_and_told(pairs):
    chunks = list(tokenise(iter(pairs), _Letters(), 9, 2))
    assert _texts(chunks) == [pair for pair in pairs if "z" not in pair[1]]
    if chunks:
        whole = TokenisedChunk.joined(chunks)
        assert _texts([whole]) == _texts(chunks)
        assert whole.read == len(pairs)
        assert whole.unseen == [
            (place, f"{target} has a z")
            for place, (_, target) in enumerate(pairs)
            if "z" in target
        ]
