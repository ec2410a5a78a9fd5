"""Equal pairs, beside a set of them."""

import random

import numpy as np
import pytest

from trainers.synthesis import duplicates
from trainers.synthesis.duplicates import Duplicates


def expected(pairs):
    seen, found = set(), []
    for pair in pairs:
        found.append(pair in seen)
        seen.add(pair)
    return found


@pytest.mark.parametrize("part", [1_000_000, 100])
def test_the_first_of_equal_pairs_is_none(tmp_path, monkeypatch, part):
    monkeypatch.setattr(duplicates, "_PART", part)
    generator = random.Random(1)
    pairs = [
        (str(generator.randrange(40)), str(generator.randrange(40)))
        for _ in range(3000)
    ]
    found = Duplicates(tmp_path, len(pairs)).find(iter(pairs))
    assert found.tolist() == expected(pairs)
    assert not any(tmp_path.iterdir())


def test_where_one_side_ends_matters(tmp_path):
    pairs = [("a b", "c"), ("a", "b c"), ("a b", "c")]
    found = Duplicates(tmp_path, 3).find(pairs)
    assert found.tolist() == [False, False, True]


def test_of_nothing_there_is_nothing(tmp_path):
    assert Duplicates(tmp_path, 0).find([]).tolist() == []


def test_digests_that_end_in_nothing_differ():
    """NumPy takes zeros at the end of bytes for none."""
    records = np.array(
        [(b"a\0\0", 0), (b"a", 1), (b"a\0b", 2)], duplicates._RECORD
    )
    # The first two are 16 bytes of the same.
    assert duplicates._repeated(records).tolist() == [1]
