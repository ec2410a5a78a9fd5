"""Merges concurrent requests into batches."""

import collections
import concurrent.futures
import threading
import typing
from collections.abc import Callable, Mapping

from export.http_server.fields import RequestError

# Callers that were answered together ask again at nearly the same time.
_GATHER_SECONDS = 0.005
# With more terms in a text a search takes tens of times as long as without: its
# time grows with the square of the first, and with the second.
_MAX_VARIANTS, _MAX_CHARACTERS = 64, 2_000


class _Request(typing.NamedTuple):
    signature: str
    inputs: Mapping[str, list]
    result: concurrent.futures.Future

    @property
    def num_texts(self):
        return len(self.inputs["text"])


class Batcher:
    """Runs a model's signatures in threads, several requests at a time.

    Each thread takes the oldest request and the waiting ones for the same
    signature; while another thread is busy, it waits 5 ms for more.

    Args:
        run: see `LoadedModel`.
        max_batch: maximum number of texts in a batch of several requests.
        max_waiting: maximum number of texts that wait.
        num_threads: number of batches that run at the same time.
    """

    def __init__(
        self,
        run: Callable[[str, dict[str, list]], dict[str, typing.Any]],
        max_batch: int,
        max_waiting: int,
        num_threads: int,
    ):
        self._run = run
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._waiting: collections.deque[_Request] = collections.deque()
        self._num_running = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of texts that wait."""
        with self._changed:
            return sum(each.num_texts for each in self._waiting)

    def submit(
        self, signature: str, inputs: Mapping[str, list]
    ) -> concurrent.futures.Future:
        """Returns the Future of a signature's outputs.

        `inputs` has "text" and what else the signature takes, lists of str or
        of lists of str. Raises RequestError if too many texts are waiting, and
        for terms that would take minutes.
        """
        if not _has_few_terms([inputs]):
            raise RequestError(
                400,
                "The texts have too many or too long terms: the most of a "
                f"text may have {_MAX_VARIANTS} variants, which, all as long "
                f"as the longest, have {_MAX_CHARACTERS} characters.",
            )
        request = _Request(signature, inputs, concurrent.futures.Future())
        with self._changed:
            num_texts = self.num_waiting + request.num_texts
            if self._waiting and num_texts > self._max_waiting:
                raise RequestError(
                    429, "Too many requests are waiting.", Retry_After="1"
                )
            self._waiting.append(request)
            self._changed.notify()
        return request.result

    def close(self) -> None:
        """Finishes what is waiting, then ends the threads."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self):
        while requests := self._take_batch():
            self._answer(requests)
            with self._changed:
                self._num_running -= 1

    def _answer(self, requests):
        try:
            inputs = {
                name: _join([request.inputs[name] for request in requests])
                for name in requests[0].inputs
            }
            outputs = self._run(requests[0].signature, inputs)
        except Exception as error:
            for request in requests:
                request.result.set_exception(error)
            return
        start = 0
        for request in requests:
            end = start + request.num_texts
            request.result.set_result(
                {name: rows[start:end] for name, rows in outputs.items()}
            )
            start = end

    def _take_batch(self):
        """Waits for requests; returns none after `close`."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._num_running:
                    self._changed.wait_for(self._is_full, _GATHER_SECONDS)
                if not self._waiting:
                    # Another thread may have taken all.
                    if self._is_closed:
                        return []
                    continue
                batch = self._pop_batch()
                # Those whose client has left are dropped.
                batch = [
                    each
                    for each in batch
                    if each.result.set_running_or_notify_cancel()
                ]
                if batch:
                    self._num_running += 1
                    return batch

    def _is_full(self):
        return self._is_closed or self.num_waiting >= self._max_batch

    def _pop_batch(self):
        signature, size = self._waiting[0].signature, 0
        batch, others = [], collections.deque()
        for request in self._waiting:
            if request.signature == signature and (
                not batch
                or (
                    size + request.num_texts <= self._max_batch
                    and _has_few_terms(
                        [each.inputs for each in (*batch, request)]
                    )
                )
            ):
                batch.append(request)
                size += request.num_texts
            else:
                others.append(request)
        self._waiting = others
        return batch


def _has_few_terms(requests):
    """Returns whether inputs of requests, padded together, have few terms."""
    rows = [
        row for inputs in requests for row in inputs.get("target_terms", [])
    ]
    terms = [target.split("|") for row in rows for target in row]
    if not terms:
        return True
    count = max(map(len, rows)) * max(map(len, terms))
    longest = max(len(variant) for variants in terms for variant in variants)
    return count <= _MAX_VARIANTS and count * longest <= _MAX_CHARACTERS


def _join(columns):
    """Returns the rows of columns as bytes, lists padded to equal lengths."""
    rows = [row for column in columns for row in column]
    if isinstance(rows[0], str):
        return [row.encode("utf-8") for row in rows]
    width = max(map(len, rows))
    return [
        [*(each.encode("utf-8") for each in row), *[b""] * (width - len(row))]
        for row in rows
    ]
