"""Sentences of similar lengths together, answers in the sentences' order."""

import concurrent.futures
import contextlib

# Batches at once: where one is busy with what takes a single core, the other
# multiplies.
NUM_THREADS = 2

# Source positions in a batch, padding counted.
BATCH_TOKENS = 2048


def translate_in_batches(
    lengths, batch_tokens, ask, on_progress=None, num_threads=NUM_THREADS
):
    """Asks for sentences in batches of so many tokens.

    Args:
        lengths: as for `by_tokens`.
        batch_tokens: as for `by_tokens`.
        ask: as for `answer_batches`.
        on_progress: as for `answer_batches`.
        num_threads: as for `answer_batches`.

    Returns:
        As `answer_batches`; None where there was nothing to ask.
    """
    batches = by_tokens(lengths, batch_tokens)
    return answer_batches(batches, len(lengths), ask, on_progress, num_threads)


def answer_batches(
    batches, count, ask, on_progress=None, num_threads=NUM_THREADS
):
    """Asks for sentences batch by batch.

    Args:
        batches: iterable of lists of sentences' numbers, from 0.
        count: how many sentences there are.
        ask: function of a list of sentences' numbers, that returns a list of
            their answers; see `parallel_map`.
        on_progress: function of the number of sentences just done.
        num_threads: how many batches are asked for at a time.

    Returns:
        A list of the answers in the order of the sentences, None for those in
        no batch.
    """
    answers, batches = [None] * count, list(batches)
    with contextlib.closing(
        parallel_map(ask, batches, num_threads)
    ) as all_found:
        for batch, found in zip(batches, all_found):
            for number, answer in zip(batch, found):
                answers[number] = answer
            if on_progress is not None:
                on_progress(len(batch))
    return answers


def parallel_map(ask, batches, num_threads=NUM_THREADS):
    """Asks for some batches at once.

    Args:
        ask: function of a batch, that threads call at the same time.
        batches: list of them.
        num_threads: batches asked for at a time; with 1 there is no thread,
            and Ctrl-C has its effect at once.

    Yields:
        The answers in the order of the batches. After an error, or where
        nobody takes them any more, no further batch is begun.
    """
    if num_threads == 1:
        yield from map(ask, batches)
        return
    threads = concurrent.futures.ThreadPoolExecutor(num_threads)
    try:
        yield from threads.map(ask, batches)
    finally:
        threads.shutdown(cancel_futures=True)


def by_tokens(lengths, batch_tokens):
    """Yields lists of sentences' numbers, the longest sentences first.

    Args:
        lengths: list of each sentence's number of ids; up to 1, the end id
            alone, there is nothing to ask.
        batch_tokens: positions in a batch, padding counted.
    """
    numbers = _longest_first(lengths)
    start = 0
    while start < len(numbers):
        rows = max(batch_tokens // lengths[numbers[start]], 1)
        yield numbers[start : start + rows]
        start += rows


def by_count(lengths, batch_size):
    """Yields lists of sentences' numbers, the longest sentences first.

    Args:
        lengths: as for `by_tokens`.
        batch_size: sentences in a batch.
    """
    numbers = _longest_first(lengths)
    for start in range(0, len(numbers), batch_size):
        yield numbers[start : start + batch_size]


def _longest_first(lengths):
    numbers = [i for i, length in enumerate(lengths) if length > 1]
    return sorted(numbers, key=lambda i: lengths[i], reverse=True)
