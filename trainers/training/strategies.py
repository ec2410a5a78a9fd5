"""Which devices, of which machines, a training runs on, and a step on all."""

import contextlib
import json
import os
import re

import keras
import numpy as np
import tensorflow as tf

from export.common.errors import InputError
from trainers.training.keras_internals import all_layers, transform_seeds

_ADDRESS = re.compile(r".+:\d+")
NAMES = ("auto", "one", "mirrored", "multiworker")


def split_cpu(count):
    """Makes one CPU look like several devices, to try replicas without GPUs.

    Call it before TensorFlow runs anything.

    Args:
        count: number of logical devices.
    """
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )


def make_strategy(name):
    """Returns a tf.distribute strategy.

    Args:
        name: "one" for a single device, "mirrored" for all GPUs of this
            machine (or all logical CPUs when it has none), "multiworker" for
            the machines that TF_CONFIG names, "auto" for mirrored where
            there are several GPUs and one where not. Make "multiworker"
            before TensorFlow runs anything; it waits for all workers.

    Returns:
        tf.distribute.Strategy.

    Raises:
        InputError: there is no such strategy, or TF_CONFIG is missing or
            wrong.
    """
    if name not in NAMES:
        raise InputError(
            f"There is no strategy {name!r}; there are: {', '.join(NAMES)}."
        )
    if name == "multiworker":
        validate_tf_config(os.environ.get("TF_CONFIG", ""))
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def has_gpu():
    """Returns whether this machine has a GPU that TensorFlow can use."""
    return bool(tf.config.list_logical_devices("GPU"))


def is_chief(strategy):
    """Whether this process writes what is the same on all workers."""
    resolver = strategy.cluster_resolver
    return resolver is None or not resolver.task_id


def validate_tf_config(text):
    """Refuses a TF_CONFIG that TensorFlow would hang or crash on.

    Args:
        text: of the environment variable.

    Raises:
        InputError: it does not name this worker among the cluster's.
    """
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        content = json.loads(text)
        workers = content["cluster"]["worker"]
        task = content["task"]
        fits = (
            set(content["cluster"]) == {"worker"}
            and all(_ADDRESS.fullmatch(address) for address in workers)
            and task["type"] == "worker"
            and 0 <= int(str(task["index"])) < len(workers)
        )
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ):
        fits = False
    if not fits:
        raise InputError(
            "--strategy=multiworker needs the environment variable TF_CONFIG "
            f"on every machine, such as {example}; it is {text!r}."
        )


# What TensorFlow's long messages say of it.
_CAUSE = re.compile(r"Collective ops is aborted by: (?:.*: )?(.*?):?$", re.M)
_WORKER = re.compile(r"/job:worker/replica:\d+/task:(\d+)")


def validate_equal_steps(strategy, step):
    """Checks that every worker found the same checkpoint.

    Args:
        strategy: tf.distribute.Strategy.
        step: updates made, as this worker read it.

    Raises:
        InputError: another worker resumes from another step.
    """
    if strategy.cluster_resolver is None:
        return

    def gather():
        replica = tf.distribute.get_replica_context()
        return replica.all_gather(tf.constant([step], tf.int64), axis=0)

    gathered = strategy.run(tf.function(gather, autograph=False))
    steps = strategy.experimental_local_results(gathered)[0].numpy()
    if np.any(steps != step):
        raise InputError(
            f"The workers found checkpoints of different steps ({steps}); "
            "--model_dir must be one folder that all of them share."
        )


@contextlib.contextmanager
def report_lost_workers(strategy):
    """A block in which the loss of another worker is a clear error.

    Args:
        strategy: tf.distribute.Strategy.

    Raises:
        InputError: another worker stopped or cannot be reached.
    """
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if strategy.cluster_resolver is None:
            raise
        seen = _seen(error.message, strategy.cluster_resolver)
        raise InputError(
            f"Another worker stopped or cannot be reached ({seen}). Start the "
            "same command on all workers again: it resumes from the last "
            "checkpoint."
        ) from error


def _seen(message, resolver):
    """Returns which workers failed this one and how, as far as it is said."""
    numbers = set(map(int, _WORKER.findall(message))) - {resolver.task_id}
    cluster = resolver.cluster_spec()
    workers = [
        f"worker {number}, {cluster.task_address('worker', number)}"
        for number in sorted(numbers)
    ]
    cause = _CAUSE.search(message)
    cause = cause[1] if cause else message.splitlines()[0]
    return ": ".join([*workers, cause])


# The golden ratio's bits: multiples of it lie far apart.
_STRIDE = 0x9E3779B9


class ReplicaSeeds:
    """Folds a replica's number into all seeds of a model.

    Args:
        model: a built keras.Model.
    """

    def __init__(self, model):
        self._replica = None
        for layer in all_layers(model):
            if isinstance(layer, keras.layers.Dropout) and layer.rate:
                transform_seeds(layer.seed_generator, self._folded)

    @contextlib.contextmanager
    def of(self, replica):
        """A block in which seeds are those of a replica.

        Args:
            replica: its number, int32 scalar tensor.
        """
        self._replica = replica
        try:
            yield
        finally:
            self._replica = None

    def _folded(self, seed):
        if self._replica is None:
            return seed
        stride = tf.cast(_STRIDE, seed.dtype)
        offset = tf.cast(self._replica, seed.dtype) * stride
        return seed + tf.stack([offset, tf.zeros_like(offset)])


def replicated_step(strategy, step):
    """Returns a function that takes a batch and runs a step with it.

    Args:
        strategy: tf.distribute.Strategy.
        step: function of a replica's part of the batch and of further
            tensors; returns a dict of tensors, the same on every replica.

    Returns:
        Function of a distributed iterator and further tensors; returns what
        one replica returned.
    """

    @tf.function(autograph=False)
    def run(iterator, *others):
        outputs = strategy.run(step, args=(iterator.get_next(), *others))
        return {
            name: strategy.experimental_local_results(value)[0]
            for name, value in outputs.items()
        }

    return run
