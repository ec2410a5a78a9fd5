"""Workers that translate shards: local processes or Ray tasks.

Tasks receive lines and return pairs; models are sent once to each machine.
"""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

from export.common.errors import InputError
from export.common.parallel import PENDING_PER_WORKER, map_futures
from trainers.synthesis.models import localize_job, read_model_files
from trainers.workers import ray_cluster


def run_local(job, shards, num_workers):
    """Yields (Shard, ShardResult) as worker processes finish.

    Raises InputError if `job` does, or if a process was killed.
    """
    with _process_pool(num_workers) as pool:
        try:
            yield from map_futures(
                functools.partial(pool.submit, _translate, job),
                shards,
                lambda: PENDING_PER_WORKER * num_workers,
                in_order=False,
            )
        except BrokenProcessPool as error:
            raise InputError(
                "A worker process was killed, most likely for lack of memory. "
                "Run the same command again, which resumes, with fewer "
                "--workers or a lower --batch_tokens."
            ) from error


def _translate(job, shard):
    return shard, job(shard.lines)


@contextlib.contextmanager
def _process_pool(num_workers):
    """Process pool whose workers end with the block or with this process."""
    # A fork would copy TensorFlow's locks without its threads.
    spawn = multiprocessing.get_context("spawn")
    # Workers exit when the main end of the pipe is closed.
    worker_end, main_end = spawn.Pipe(duplex=False)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers, spawn, _initialize_worker, (worker_end,)
    )
    try:
        yield pool
    except BaseException:
        # A running shard may take minutes, and its result is not needed.
        main_end.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        main_end.close()
        worker_end.close()


def _initialize_worker(worker_end):
    # A terminal sends Ctrl-C to all; the main process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(
        target=_exit_when_closed, args=(worker_end,), daemon=True
    ).start()


def _exit_when_closed(worker_end):
    multiprocessing.connection.wait([worker_end])
    os._exit(1)


def run_on_ray(job, shards, address, gpus=0.0):
    """Yields (Shard, ShardResult) as tasks of a Ray cluster finish.

    `address` is as in `ray_cluster.connect`; each shard reserves `gpus` GPUs.
    Raises InputError as it does, and if `job` does.
    """
    threads = job.options.threads
    with ray_cluster.connect(address, cpus=threads, gpus=gpus) as cluster:
        # As a reference, which each process fetches once, not each task.
        files = cluster.put(read_model_files(job.models))
        translate = functools.partial(_translate_on_ray, job, files)
        yield from cluster.map(translate, shards, in_order=False)


def _translate_on_ray(job, files, shard):
    import ray

    return _translate(localize_job(job, lambda: ray.get(files)), shard)
