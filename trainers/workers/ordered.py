"""Like `map`, in threads or on a Ray cluster: results in the items' order.

`threads` and `ray_tasks` are context managers of a function
`ordered_map(function, items)`. It returns a generator, which holds a bounded
number of items and results; close it to cancel what has not begun.
"""

import collections
import concurrent.futures
import contextlib
import functools

from trainers.workers import ray_cluster

_PENDING_PER_THREAD = 2


@contextlib.contextmanager
def threads(num_threads):
    """Yields an `ordered_map` that runs in threads."""
    yield functools.partial(_map_in_threads, num_threads)


@contextlib.contextmanager
def ray_tasks(address):
    """Yields an `ordered_map` for a Ray cluster, one processor per task.

    Its function and items must be picklable, and results must not depend on
    who computes them: tasks of lost workers and machines are repeated.
    """
    with ray_cluster.connect(address) as cluster:
        yield functools.partial(_map_on_ray, cluster)


def _map_in_threads(num_threads, function, items):
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        try:
            yield from _map_bounded(
                functools.partial(pool.submit, function),
                items,
                lambda: _PENDING_PER_THREAD * num_threads,
            )
        finally:
            pool.shutdown(cancel_futures=True)


def _map_on_ray(cluster, function, items):
    # Each machine receives the function once.
    submit = functools.partial(cluster.remote(_call), cluster.put(function))
    yield from _map_bounded(submit, items, cluster.max_pending)


def _call(function, item):
    return function(item)


def _map_bounded(submit, items, max_pending):
    """Yields the results of Futures in order, `max_pending()` at a time."""
    pending = collections.deque()
    for item in items:
        pending.append(submit(item))
        while len(pending) >= max_pending():
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
