"""Workers that translate shards: local processes or Ray tasks.

Machines of a Ray cluster share no disk: tasks receive lines and return pairs,
and models and this program's code are sent once to each machine.
"""

import concurrent.futures
import contextlib
import itertools
import logging
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import socket
import threading
from concurrent.futures.process import BrokenProcessPool

from export.common.errors import InputError
from trainers.synthesis.models import localize_job, read_model_files

# Submitted shards per worker, so that no worker is idle.
_SHARDS_PER_WORKER = 2
# Maximum retries of a shard whose worker or machine died.
_RAY_RETRIES = 10
_CONNECTION_TIMEOUT = 10  # seconds
_ROOT = pathlib.Path(__file__).parents[2]
_PACKAGES = ("trainers", "export", "keras_transformer")


def run_local(job, shards, num_workers):
    """Yields (Shard, ShardResult) as worker processes finish.

    Raises InputError if `job` does, or if a process was killed.
    """
    with _process_pool(num_workers) as pool:
        try:
            yield from _run_bounded(
                shards,
                lambda lines: pool.submit(job, lines),
                lambda: _SHARDS_PER_WORKER * num_workers,
            )
        except BrokenProcessPool as error:
            raise InputError(
                "A worker process was killed, most likely for lack of memory. "
                "Run the same command again, which resumes, with fewer "
                "--workers or a lower --batch_tokens."
            ) from error


def _run_bounded(shards, submit, max_pending):
    """Yields (shard, result) as they finish; `max_pending()` are submitted."""
    shards, pending = iter(shards), {}
    while True:
        num_new = max(max_pending() - len(pending), 0)
        for shard in itertools.islice(shards, num_new):
            pending[submit(shard.lines)] = shard
        if not pending:
            return
        done, _ = concurrent.futures.wait(
            pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in done:
            yield pending.pop(future), future.result()


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

    `address` is "auto" for this machine's cluster, or host:port of the head;
    each shard reserves `gpus` GPUs. Raises InputError if `job` does, the
    cluster cannot be used or is too small, or a shard's workers die repeatedly.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "--ray needs Ray, which is not installed; pip install -r "
            "requirements-ray.txt, or omit it to use this machine alone."
        ) from error
    resources = {"CPU": job.options.threads}
    if gpus:
        resources["GPU"] = gpus
    with _ray_connection(ray, address):
        if not _count_concurrent_tasks(ray, resources):
            raise InputError(
                f"No machine of --ray={address} has the {resources['CPU']} "
                f"processors and {gpus:g} GPUs that a shard needs; add "
                "machines, or give a lower --threads or --ray_gpus."
            )
        task = ray.remote(
            num_cpus=job.options.threads,
            num_gpus=gpus,
            max_retries=_RAY_RETRIES,
        )(_translate_on_ray)
        # In a list, so that each process fetches it once, not each task.
        files = [ray.put(read_model_files(job.models))]

        def max_pending():
            # Machines may join or leave the cluster.
            num_tasks = _count_concurrent_tasks(ray, resources)
            return _SHARDS_PER_WORKER * max(num_tasks, 1)

        yield from _run_bounded(
            shards,
            lambda lines: task.remote(job, files, lines).future(),
            max_pending,
        )


def _translate_on_ray(job, files, lines):
    import ray

    local_job = localize_job(job, lambda: ray.get(files[0]))
    return local_job(lines)


@contextlib.contextmanager
def _ray_connection(ray, address):
    """Connects to a cluster, and converts its errors to InputError."""
    if address != "auto":
        _validate_address(address)
    try:
        ray.init(
            address,
            runtime_env={"py_modules": [str(_ROOT / p) for p in _PACKAGES]},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise InputError(
            f"--ray={address} cannot be used: {_first_line(error)} Start one "
            "on this machine with ray start --head, or join one with ray "
            "start --address=HOST:PORT."
        ) from error
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise InputError(
            f"The workers of a shard were lost {_RAY_RETRIES + 1} times, the "
            f"last time with: {_first_line(error)} Give them more memory, or "
            "a lower --batch_tokens. Finished shards are kept."
        ) from error
    finally:
        ray.shutdown()


def _validate_address(address):
    """Raises InputError if nobody listens; Ray would retry for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECTION_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--ray={address} does not respond ({error}); give auto, or the "
            "host:port that ray start --head printed, such as 10.0.0.1:6379."
        ) from error


def _count_concurrent_tasks(ray, resources):
    """Returns how many tasks of these resources the cluster runs at once."""
    total = 0
    for node in ray.nodes():
        if node["Alive"]:
            available = node["Resources"]
            total += min(
                int(available.get(name, 0) // amount)
                for name, amount in resources.items()
            )
    return total


def _first_line(error):
    return str(error).strip().splitlines()[0]
