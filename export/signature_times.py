"""How long a signature takes: to warm up, then first, then later."""

import statistics
import time
import typing

_LATER = 5


class Times(typing.NamedTuple):
    """Seconds.

    Attributes:
        warm_up: of all warm-up requests together, in a fresh process.
        first: of the first request after them.
        later: of the same request, the median of five more.
    """

    warm_up: float
    first: float
    later: float


def signature_times(run, requests):
    """Returns the Times of one signature.

    Args:
        run: function of a request.
        requests: list of the warm-up requests; the first is what is asked
            again.
    """
    warm_up = sum(_seconds(run, request) for request in requests)
    first, *later = (_seconds(run, requests[0]) for _ in range(_LATER + 1))
    return Times(warm_up, first, statistics.median(later))


def _seconds(run, request):
    started = time.perf_counter()
    run(request)
    return time.perf_counter() - started
