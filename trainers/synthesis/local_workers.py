"""Workers on this machine: processes, each with models of its own."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

from export.errors import InputError
from trainers.synthesis.bounded_submission import submit_bounded

# Shards that wait for each worker, so that none waits for one.
_AHEAD = 2
# Workers that die one after another without a shard done in between.
_MOST_DEATHS = 3


def run(work, jobs, count):
    """Does jobs in processes of their own.

    Where a process dies, all begin anew with the shards that were lost.

    Args:
        work: function of a job's lines, which pickle takes.
        jobs: iterable of Job.
        count: of processes.

    Yields:
        (Job, what `work` returned), as they are done.

    Raises:
        InputError: of `work`; or processes die again and again.
    """
    jobs, deaths = iter(jobs), 0
    while True:
        begun = {}
        try:
            for job, made in _run_in_pool(work, jobs, count, begun):
                deaths = 0
                yield job, made
            return
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == _MOST_DEATHS:
                raise InputError(
                    f"Worker processes were killed {deaths} times in a row, "
                    "most likely for want of memory; give fewer --workers or "
                    "a lower --batch_tokens. What is done is kept."
                ) from error
        jobs = itertools.chain(begun.values(), jobs)


def _run_in_pool(work, jobs, count, begun):
    def begin(job):
        try:
            return pool.submit(work, job.lines)
        except BrokenProcessPool as error:
            refused = concurrent.futures.Future()
            refused.set_exception(error)
            return refused

    def ended(futures):
        first = concurrent.futures.FIRST_COMPLETED
        return concurrent.futures.wait(futures, return_when=first).done

    def most():
        return _AHEAD * count

    with _pool(count) as pool:
        for job, future in submit_bounded(jobs, begin, ended, most, begun):
            yield job, future.result()


@contextlib.contextmanager
def _pool(count):
    """A pool that does not outlive the block, or this process."""
    # A fork would take TensorFlow's locks along without its threads.
    spawn = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(count, spawn, _begin)
    try:
        yield pool
    except BaseException:
        # A shard may take minutes, and nobody waits for it.
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin():
    """Sets a worker up."""
    # A terminal sends Ctrl-C to all; the one that writes ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    parent = multiprocessing.parent_process()
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
