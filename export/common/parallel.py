"""Parallel maps with a bounded number of items in memory."""

import concurrent.futures
import functools
import itertools

# Submitted items per worker, so that no worker is idle.
PENDING_PER_WORKER = 2


def map_in_threads(
    function, items, num_threads, pending_per_thread=PENDING_PER_WORKER
):
    """Maps in threads; yields the results in the order of the items.

    After an error or `close` no further item is started.
    """
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        try:
            yield from map_futures(
                functools.partial(pool.submit, function),
                items,
                lambda: pending_per_thread * num_threads,
            )
        finally:
            pool.shutdown(cancel_futures=True)


def map_futures(submit, items, max_pending, in_order=True):
    """Yields the results of the Futures that `submit` returns for items.

    At most `max_pending()` items are submitted and not yet yielded. Without
    `in_order`, results come as they finish.
    """
    items, pending = iter(items), {}
    while True:
        num_new = max(max_pending() - len(pending), 0)
        for item in itertools.islice(items, num_new):
            pending[submit(item)] = None
        if not pending:
            return
        finished = [next(iter(pending))]
        if not in_order:
            finished, _ = concurrent.futures.wait(
                pending, return_when=concurrent.futures.FIRST_COMPLETED
            )
        for future in finished:
            del pending[future]
            yield future.result()
