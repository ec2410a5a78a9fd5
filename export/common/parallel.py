"""Parallel maps with a bounded number of items in memory."""

import concurrent.futures
import functools
import itertools
import typing
from collections.abc import Callable, Collection, Generator, Iterable, Iterator

# Submitted items per worker, so that no worker is idle.
PENDING_PER_WORKER = 2
_Item = typing.TypeVar("_Item")
_Result = typing.TypeVar("_Result")


def map_in_threads(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    num_threads: int,
    pending_per_thread: int = PENDING_PER_WORKER,
) -> Generator[_Result, None, None]:
    """Maps in threads; yields the results in the order of the items.

    After an error or `close` no further item is started.
    """
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        try:
            yield from map_futures(
                # mypy takes the arguments of `submit` for those of `function`.
                functools.partial(pool.submit, function),  # type: ignore[call-arg]
                items,
                lambda: pending_per_thread * num_threads,
            )
        finally:
            pool.shutdown(cancel_futures=True)


def map_futures(
    submit: Callable[[_Item], concurrent.futures.Future[_Result]],
    items: Iterable[_Item],
    max_pending: Callable[[], int],
    in_order: bool = True,
) -> Iterator[_Result]:
    """Yields the results of the Futures that `submit` returns for items.

    At most `max_pending()` items are submitted and not yet yielded. Without
    `in_order`, results come as they finish.
    """
    items = iter(items)
    pending: dict[concurrent.futures.Future[_Result], None] = {}
    while True:
        num_new = max(max_pending() - len(pending), 0)
        for item in itertools.islice(items, num_new):
            pending[submit(item)] = None
        if not pending:
            return
        finished: Collection[concurrent.futures.Future[_Result]]
        finished = [next(iter(pending))]
        if not in_order:
            finished, _ = concurrent.futures.wait(
                pending, return_when=concurrent.futures.FIRST_COMPLETED
            )
        for future in finished:
            del pending[future]
            yield future.result()
