"""Merges requests into batches, as TensorFlow Serving's batching does."""

import collections
import threading
import time
import typing

import numpy as np


class BatchingConfig(typing.NamedTuple):
    """What a server's batching file says.

    Attributes:
        max_batch_size: sentences in a batch, at most.
        timeout: seconds that a request waits for others to come.
        threads: batches that run at once.
    """

    max_batch_size: int
    timeout: float
    threads: int


class Batcher:
    """Answers requests of one signature in merged batches.

    A batch starts when it is full or its first request has waited long
    enough, and a thread is free; use it in a `with` block.

    Args:
        run: function of a dict of arrays or lists, batch first; returns a
            dict of arrays, batch first.
        rules: BatchingConfig.
    """

    def __init__(self, run, rules):
        self._run, self._rules = run, rules
        self._waiting = collections.deque()
        self._change = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work) for _ in range(rules.threads)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def ask(self, inputs):
        """Answers one request; blocks, from any number of threads.

        Args:
            inputs: dict, name to list, one item for each sentence.

        Returns:
            dict, name to array.

        Raises:
            Exception: what running its batch raised.
        """
        request = _Request(inputs)
        with self._change:
            self._waiting.append(request)
            self._change.notify()
        request.done.wait()
        if request.error is not None:
            raise request.error
        return request.answer

    def _work(self):
        while batch := self._next_batch():
            _answer(batch, self._run)

    def _next_batch(self):
        """Returns a list of requests; it is empty when all is closed."""
        most, timeout, _ = self._rules
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            while self._waiting and not self._closed:
                left = self._waiting[0].came + timeout - time.monotonic()
                if left <= 0 or sum(map(len, self._waiting)) >= most:
                    break
                self._change.wait(left)
                # Another thread may have taken them all.
                self._change.wait_for(lambda: self._waiting or self._closed)
            batch, size = [], 0
            while self._waiting and (
                not batch or size + len(self._waiting[0]) <= most
            ):
                size += len(self._waiting[0])
                batch.append(self._waiting.popleft())
            if self._waiting:
                self._change.notify()
            return batch


class _Request:
    def __init__(self, inputs):
        self.inputs = inputs
        self.came = time.monotonic()
        self.done = threading.Event()
        self.answer = self.error = None

    def __len__(self):
        return len(next(iter(self.inputs.values())))


def _answer(batch, run):
    merged = {
        name: [item for request in batch for item in request.inputs[name]]
        for name in batch[0].inputs
    }
    try:
        outputs = run(merged)
        ends = np.cumsum([len(request) for request in batch])
        for request, end in zip(batch, ends):
            rows = slice(end - len(request), end)
            request.answer = {name: out[rows] for name, out in outputs.items()}
    except Exception as error:
        for request in batch:
            request.error = error
    finally:
        for request in batch:
            request.done.set()
