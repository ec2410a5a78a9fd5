"""Workers on a Ray cluster: its tasks, of which Ray sees to place and retries.

Lines go to the tasks and pairs come back, so that the machines need no common
disk. Models and this program's code go with them, once to each machine; what
requirements.txt pins must be installed there.
"""

import contextlib
import logging
import pathlib
import socket

from export.errors import InputError
from trainers.synthesis.bounded_submission import submit_bounded
from trainers.synthesis.model_bundle import ModelBundle, load_bundle

# Shards that wait for each processor, so that none waits for one.
_AHEAD = 2
# Deaths of a worker or machine over one shard.
_RETRIES = 10
_SECONDS_TO_ANSWER = 10

_ROOT = pathlib.Path(__file__).parents[2]
_FLOORS = ("trainers", "export", "keras_transformer")


def run(work, jobs, address, gpus=0.0):
    """Does jobs on a cluster.

    Args:
        work: TranslationJob.
        jobs: iterator of Job.
        address: "auto" for the cluster that this machine is part of, or
            host:port of its head.
        gpus: that Ray sets aside for a shard, a part of one or some. With
            any, Ray has each shard done by a new process.

    Yields:
        (Job, ShardResult), as they are done.

    Raises:
        InputError: Ray is not installed, the cluster is not there or too
            small, a shard's workers die again and again; or of `work`.
    """
    ray = _ray()
    with _connected(ray, address):
        needs = {"CPU": work.options.threads, "GPU": gpus}
        _refuse_small(ray, address, needs)
        do = ray.remote(
            num_cpus=needs["CPU"], num_gpus=gpus, max_retries=_RETRIES
        )(_do)
        # In a list, so that Ray hands it on and each process fetches it once.
        bundle = [ray.put(ModelBundle.from_job(work))]

        def ended(references):
            return ray.wait(references, num_returns=1)[0]

        def most():
            return _AHEAD * max(_shards_at_once(ray, needs), 1)

        for job, reference in submit_bounded(
            jobs,
            lambda job: do.remote(work, bundle, job.lines),
            ended,
            most,
            {},
        ):
            with _told_in_one_line(ray):
                made = ray.get(reference)
            yield job, made


def _do(work, bundle, lines):
    import ray

    return load_bundle(work, lambda: ray.get(bundle[0]))(lines)


def _ray():
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "--ray needs Ray, which is not installed; pip install -r "
            "requirements-ray.txt, or leave it out to work on this machine."
        ) from error
    return ray


@contextlib.contextmanager
def _connected(ray, address):
    _refuse_silent(address)
    code = [str(_ROOT / floor) for floor in _FLOORS]
    try:
        ray.init(
            address,
            runtime_env={"py_modules": code},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    # Ray says so in many ways.
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"--ray={address} cannot be used: {reason} Start one on this "
            "machine with ray start --head, or join one with ray start "
            "--address=HOST:PORT."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_silent(address):
    """Ray would try for a minute to reach what is not there."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--ray={address} does not answer ({error}); give auto, or the "
            "host:port that ray start --head named, such as 10.0.0.1:6379."
        ) from error


def _refuse_small(ray, address, needs):
    if not _shards_at_once(ray, needs):
        raise InputError(
            f"No machine of --ray={address} has the {needs['CPU']} processors "
            f"and {needs['GPU']:g} GPUs that a shard needs; let machines join "
            "it, or give a lower --threads or --ray_gpus."
        )


def _shards_at_once(ray, needs):
    return sum(
        min(
            int(node["Resources"].get(name, 0) // amount)
            for name, amount in needs.items()
            if amount
        )
        for node in ray.nodes()
        if node["Alive"]
    )


@contextlib.contextmanager
def _told_in_one_line(ray):
    errors = ray.exceptions
    try:
        yield
    except errors.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except errors.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"The workers of a shard were lost {_RETRIES + 1} times, the last "
            f"time so: {reason} Give them more memory, or a lower "
            "--batch_tokens. What is done is kept."
        ) from error
