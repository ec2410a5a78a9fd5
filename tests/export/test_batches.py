"""Batches by length, answers in order."""

import pytest

from export.batches import in_batches

LENGTHS = [5, 1, 9, 2, 2, 7, 1, 3, 30, 4]


@pytest.mark.parametrize("batch_tokens", [1, 8, 20, 1000])
def test_each_is_asked_once_and_answered_in_its_place(batch_tokens):
    batches, steps = [], []

    def ask(numbers):
        batches.append(numbers)
        return [f"{number}!" for number in numbers]

    found = in_batches(LENGTHS, batch_tokens, ask, steps.append)
    expected = [f"{i}!" if n > 1 else None for i, n in enumerate(LENGTHS)]
    assert found == expected
    assert sum(steps) == 8
    for batch in batches:
        longest = max(LENGTHS[number] for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
    asked = [LENGTHS[number] for batch in batches for number in batch]
    assert asked == sorted(asked, reverse=True)


def test_nothing_is_asked_of_nothing():
    assert in_batches([], 8, None) == []
    assert in_batches([1, 0], 8, None) == [None, None]
