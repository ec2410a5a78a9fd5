"""Batches by length, answers in order."""

import contextlib
import threading
import time

import pytest

from export.translators.batches import parallel_map, translate_in_batches

LENGTHS = [5, 1, 9, 2, 2, 7, 1, 3, 30, 4]


@pytest.mark.parametrize("batch_tokens", [1, 8, 20, 1000])
def test_each_is_asked_once_and_answered_in_its_place(batch_tokens):
    batches, steps = [], []

    def ask(numbers):
        batches.append(numbers)
        return [f"{number}!" for number in numbers]

    found = translate_in_batches(LENGTHS, batch_tokens, ask, steps.append)
    expected = [f"{i}!" if n > 1 else None for i, n in enumerate(LENGTHS)]
    assert found == expected
    assert sum(steps) == 8
    for batch in batches:
        longest = max(LENGTHS[number] for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
    asked = [LENGTHS[number] for batch in batches for number in batch]
    assert asked == sorted(asked, reverse=True)


def test_nothing_is_asked_of_nothing():
    assert translate_in_batches([], 8, None) == []
    assert translate_in_batches([1, 0], 8, None) == [None, None]


def test_two_batches_are_asked_at_once():
    meeting = threading.Barrier(2, timeout=60)

    def ask(batch):
        meeting.wait()
        return batch * 10

    assert list(parallel_map(ask, [1, 2, 3, 4])) == [10, 20, 30, 40]


def test_the_answers_of_slow_batches_come_first_all_the_same():
    second_is_done = threading.Event()

    def ask(batch):
        if batch == 1:
            assert second_is_done.wait(60)
        else:
            second_is_done.set()
        return batch

    assert list(parallel_map(ask, [1, 2, 3])) == [1, 2, 3]


def test_an_error_ends_it():
    asked = []

    def ask(batch):
        asked.append(batch)
        if batch == 0:
            raise ValueError("no such batch")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="no such batch"):
        list(parallel_map(ask, range(1000)))
    assert len(asked) < 1000


def test_nothing_more_is_asked_when_nobody_listens():
    asked = []

    def ask(batch):
        asked.append(batch)
        time.sleep(0.05)

    with contextlib.closing(parallel_map(ask, range(1000))) as answers:
        next(answers)
    begun = len(asked)
    assert begun < 1000
    time.sleep(0.2)
    assert len(asked) == begun


def test_an_interruption_between_two_answers_ends_it():
    asked = []

    def ask(numbers):
        asked.append(numbers)
        time.sleep(0.05)
        return numbers

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:
        translate_in_batches([5] * 1000, 5, ask, interrupt)
    begun = len(asked)
    time.sleep(0.2)
    assert len(asked) == begun < 1000
    # Held until here: what ends the threads is not the frame's own end.
    assert kept.traceback
