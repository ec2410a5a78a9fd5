"""Batches by length, answers in order."""

import contextlib
import threading
import time

import pytest

from export.translators.batches import parallel_map, translate_in_batches

LENGTHS = [5, 1, 9, 2, 2, 7, 1, 3, 30, 4]


@pytest.mark.parametrize("batch_tokens", [1, 8, 20, 1000])
def test_each_is_answered_once_and_in_its_place(batch_tokens):
    batches, steps = [], []

    def answer(numbers):
        batches.append(numbers)
        return [f"{number}!" for number in numbers]

    found = translate_in_batches(LENGTHS, batch_tokens, answer, steps.append)
    expected = [f"{i}!" if n > 1 else None for i, n in enumerate(LENGTHS)]
    assert found == expected
    assert sum(steps) == 8
    for batch in batches:
        longest = max(LENGTHS[number] for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
    lengths = [LENGTHS[number] for batch in batches for number in batch]
    assert lengths == sorted(lengths, reverse=True)


def test_without_text_nothing_is_called():
    assert translate_in_batches([], 8, None) == []
    assert translate_in_batches([1, 0], 8, None) == [None, None]


def test_two_items_at_once_and_results_in_order():
    meeting = threading.Barrier(2, timeout=60)
    second_is_done = threading.Event()

    def function(item):
        meeting.wait()
        if item == 1:
            assert second_is_done.wait(60)
        else:
            second_is_done.set()
        return item * 10

    assert list(parallel_map(function, [1, 2, 3, 4])) == [10, 20, 30, 40]


def _ends_early(end):
    """Runs `end` on a function that notes its calls; no more may follow."""
    begun = []

    def function(item):
        begun.append(item)
        time.sleep(0.05)
        return item

    end(function)
    count = len(begun)
    assert count < 1000
    time.sleep(0.2)
    assert len(begun) == count


def test_an_error_ends_it():
    def end(function):
        def failing(item):
            function(item)
            if item == 0:
                raise ValueError("no such batch")

        with pytest.raises(ValueError, match="no such batch"):
            list(parallel_map(failing, range(1000)))

    _ends_early(end)


def test_closing_ends_it():
    def end(function):
        with contextlib.closing(parallel_map(function, range(1000))) as results:
            next(results)

    _ends_early(end)


def test_an_interruption_between_two_answers_ends_it():
    def interrupt(_):
        raise KeyboardInterrupt

    def end(function):
        with pytest.raises(KeyboardInterrupt) as caught:
            translate_in_batches([5] * 1000, 5, function, interrupt)
        # Held until here: the frame's own end does not end the threads.
        assert caught.traceback

    _ends_early(end)
