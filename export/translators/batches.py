"""Translates sentences in batches of similar lengths."""

import concurrent.futures
import contextlib

# One batch computes matrix products while another runs single-threaded code.
NUM_THREADS = 2

# Source tokens in a batch, padding included.
BATCH_TOKENS = 2048


def translate_in_batches(
    lengths,
    batch_tokens,
    answer_batch,
    on_progress=None,
    num_threads=NUM_THREADS,
):
    """Answers sentences in the batches of `by_tokens`; see `answer_batches`."""
    batches = by_tokens(lengths, batch_tokens)
    return answer_batches(
        batches, len(lengths), answer_batch, on_progress, num_threads
    )


def answer_batches(
    batches, count, answer_batch, on_progress=None, num_threads=NUM_THREADS
):
    """Answers `count` sentences batch by batch.

    Args:
        batches: iterable of lists of sentence indices.
        count: number of sentences.
        answer_batch: thread-safe function of a list of sentence indices that
            returns a list of their answers.
        on_progress: function of the number of newly answered sentences.
        num_threads: number of batches that are answered in parallel.

    Returns:
        A list of answers; None for sentences in no batch.
    """
    answers, batches = [None] * count, list(batches)
    with contextlib.closing(
        parallel_map(answer_batch, batches, num_threads)
    ) as results:
        for batch, batch_answers in zip(batches, results):
            for number, answer in zip(batch, batch_answers):
                answers[number] = answer
            if on_progress is not None:
                on_progress(len(batch))
    return answers


def parallel_map(function, items, num_threads=NUM_THREADS):
    """Maps in threads, and yields the results in the order of the items.

    After an error or `close` no further item is started. With 1 there is no
    thread, and Ctrl-C acts at once.
    """
    if num_threads == 1:
        yield from map(function, items)
        return
    threads = concurrent.futures.ThreadPoolExecutor(num_threads)
    try:
        yield from threads.map(function, items)
    finally:
        threads.shutdown(cancel_futures=True)


def by_tokens(lengths, batch_tokens):
    """Yields lists of sentence indices, the longest sentences first.

    A batch has at most `batch_tokens` tokens, padding included, or 1 sentence.
    Sentences with only the end id, of length 1, are in no batch.
    """
    numbers = _longest_first(lengths)
    while numbers:
        size = max(batch_tokens // lengths[numbers[0]], 1)
        yield numbers[:size]
        numbers = numbers[size:]


def by_count(lengths, batch_size):
    """Yields lists of `batch_size` sentence indices; see `by_tokens`."""
    numbers = _longest_first(lengths)
    for start in range(0, len(numbers), batch_size):
        yield numbers[start : start + batch_size]


def _longest_first(lengths):
    numbers = [i for i, length in enumerate(lengths) if length > 1]
    return sorted(numbers, key=lambda i: lengths[i], reverse=True)
