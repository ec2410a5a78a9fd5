"""Sentences of similar lengths together, answers in the sentences' order."""

import concurrent.futures
import contextlib

# Batches at once: where one is busy with what takes a single core, the other
# multiplies.
AT_ONCE = 2

# Source positions in a batch, padding counted.
BATCH_TOKENS = 2048


def in_batches(lengths, batch_tokens, ask, on_progress=None):
    """Asks for sentences batch by batch.

    Args:
        lengths: list of each sentence's number of ids; up to 1, the end id
            alone, there is nothing to ask.
        batch_tokens: positions in a batch, padding counted.
        ask: function of a list of sentences' numbers, that returns a list of
            their answers; see `side_by_side`.
        on_progress: function of the number of sentences just done.

    Returns:
        A list of the answers in the order of `lengths`, None where there was
        nothing to ask.
    """
    answers = [None] * len(lengths)
    batches = list(_by_length(lengths, batch_tokens))
    with contextlib.closing(side_by_side(ask, batches)) as all_found:
        for batch, found in zip(batches, all_found):
            for number, answer in zip(batch, found):
                answers[number] = answer
            if on_progress is not None:
                on_progress(len(batch))
    return answers


def side_by_side(ask, batches):
    """Asks for some batches at once.

    Args:
        ask: function of a batch, that threads call at the same time.
        batches: list of them.

    Yields:
        The answers in the order of the batches. After an error, or where
        nobody takes them any more, no further batch is begun.
    """
    threads = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    try:
        yield from threads.map(ask, batches)
    finally:
        threads.shutdown(cancel_futures=True)


def _by_length(lengths, batch_tokens):
    """Yields lists of numbers, the longest sentences first."""
    numbers = [i for i, length in enumerate(lengths) if length > 1]
    numbers.sort(key=lambda i: lengths[i], reverse=True)
    start = 0
    while start < len(numbers):
        rows = max(batch_tokens // lengths[numbers[start]], 1)
        yield numbers[start : start + rows]
        start += rows
