"""Load test with concurrent callers, and TensorFlow Serving's batching."""

import collections
import concurrent.futures
import pathlib
import resource
import statistics
import threading
import time
import typing


class BatchingConfig(typing.NamedTuple):
    """Server batching: maximum size, timeout in seconds, and threads."""

    max_batch_size: int
    timeout: float
    threads: int


class _Request(typing.NamedTuple):
    inputs: dict
    size: int
    time: float
    answer: concurrent.futures.Future


class Batcher:
    """Answers requests of one signature in merged batches.

    A context manager. A batch starts when a thread is free and the batch is
    full or its first request reaches the timeout. `run` is a function of a dict
    of lists, batch first, that returns a dict of arrays.
    """

    def __init__(self, run, config):
        self._run, self._config = run, config
        self._waiting = collections.deque()
        self._change = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work) for _ in range(config.threads)
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
        """Answers one request like `run`; blocking and thread-safe."""
        size = len(next(iter(inputs.values())))
        answer = concurrent.futures.Future()
        with self._change:
            self._waiting.append(
                _Request(inputs, size, time.monotonic(), answer)
            )
            self._change.notify()
        return answer.result()

    def _work(self):
        while batch := self._next_batch():
            inputs = {
                name: [item for each in batch for item in each.inputs[name]]
                for name in batch[0].inputs
            }
            try:
                outputs = self._run(inputs)
            except Exception as error:
                for request in batch:
                    request.answer.set_exception(error)
                continue
            start = 0
            for request in batch:
                rows = slice(start, start + request.size)
                request.answer.set_result(
                    {name: output[rows] for name, output in outputs.items()}
                )
                start += request.size

    def _next_batch(self):
        """Returns a list of requests, empty after closing."""
        most, timeout, _ = self._config
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            while self._waiting and not self._closed:
                left = self._waiting[0].time + timeout - time.monotonic()
                if (
                    left <= 0
                    or sum(each.size for each in self._waiting) >= most
                ):
                    break
                self._change.wait(left)
                # Another thread may have taken all requests.
                self._change.wait_for(lambda: self._waiting or self._closed)
            batch, size = [], 0
            while self._waiting and (
                not batch or size + self._waiting[0].size <= most
            ):
                batch.append(self._waiting.popleft())
                size += batch[-1].size
            if self._waiting:
                self._change.notify()
            return batch


class Load:
    """Measures callers that each send one request after another.

    The first quarter of the time is a warm-up. `rate` is answers per second,
    `cpu` CPU seconds per answer, `median` and `slowest` (the 99th percentile)
    the latency in seconds, `megabytes` the memory growth.
    """

    def __init__(self, ask, questions, is_right, callers, seconds):
        start = time.monotonic() + seconds / 4
        end = start + seconds * 3 / 4
        waits, self.wrong, self.errors = [], 0, []

        def call(caller):
            number = caller % len(questions)
            while (asked := time.monotonic()) < end:
                try:
                    answer = ask(questions[number])
                except Exception as error:
                    self.errors.append(str(error))
                    return
                wait = time.monotonic() - asked
                right = is_right(number, answer)
                with lock:
                    self.wrong += not right
                    if asked >= start:
                        waits.append(wait)
                number = (number + callers + 1) % len(questions)

        lock = threading.Lock()
        threads = [
            threading.Thread(target=call, args=(number,))
            for number in range(callers)
        ]
        for thread in threads:
            thread.start()
        time.sleep(max(start - time.monotonic(), 0))
        memory, cpu = _megabytes(), time.process_time()
        for thread in threads:
            thread.join()
        took = time.monotonic() - start
        self.answers = len(waits)
        self.rate = self.answers / took
        self.cpu = (time.process_time() - cpu) / max(self.answers, 1)
        self.median = statistics.median(waits) if waits else took
        self.slowest = sorted(waits)[len(waits) * 99 // 100] if waits else took
        self.megabytes = _megabytes() - memory


def _megabytes():
    text = pathlib.Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * resource.getpagesize() / 1e6
