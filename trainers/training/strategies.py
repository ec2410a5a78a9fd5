"""Makes tf.distribute strategies, checks workers, seeds replicas.

This module is the `Strategies` of TensorFlow.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from export.common.errors import InputError
from keras_transformer.layers.base import flatten_layers
from trainers.training.strategy_base import lost_worker_error

_ADDRESS = re.compile(r".+:\d+")
# Finds workers in TensorFlow's long messages.
_WORKER = re.compile(r"/job:worker/replica:\d+/task:(\d+)")
# Bits of the golden ratio; its multiples are far apart.
_SEED_STRIDE = 0x9E3779B9


def split_cpu(count: int) -> None:
    """Splits the CPU into devices, before any operation."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Returns a tf.distribute strategy; multiworker of TF_CONFIG."""
    if name == "multiworker":
        validate_tf_config(os.environ.get("TF_CONFIG", ""))
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def make_operations_deterministic() -> None:
    """Makes TensorFlow use operations with reproducible bits."""
    tf.config.experimental.enable_op_determinism()


def is_multiworker(strategy: tf.distribute.Strategy) -> bool:
    """Whether other machines take part."""
    return strategy.cluster_resolver is not None


def local_strategy() -> tf.distribute.Strategy:
    """Returns the strategy for one device of this worker."""
    return tf.distribute.get_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this is the worker that writes and reports."""
    resolver = strategy.cluster_resolver
    return resolver is None or not resolver.task_id


def validate_tf_config(text: str) -> None:
    """Raises InputError where TensorFlow would hang or crash on TF_CONFIG."""
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
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            "Expected TF_CONFIG in the environment of every machine, such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": '
            f'{{"type": "worker", "index": 0}}}}, got {text!r}.'
        )


def gather_steps(strategy: tf.distribute.Strategy, step: int) -> np.ndarray:
    """Returns the steps that all workers resume from, int [N]."""

    def gather():
        replica = tf.distribute.get_replica_context()
        return replica.all_gather(tf.constant([step], tf.int64), axis=0)

    gathered = strategy.run(tf.function(gather, autograph=False))
    return strategy.experimental_local_results(gathered)[0].numpy()


@contextlib.contextmanager
def report_lost_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Context that raises InputError when another worker is lost."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if not is_multiworker(strategy):
            raise
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec()
        task_ids = set(map(int, _WORKER.findall(error.message)))
        lost = [
            f"worker {task_id}, {cluster.task_address('worker', task_id)}"
            for task_id in sorted(task_ids - {resolver.task_id})
        ]
        raise lost_worker_error(
            "; ".join(lost) or error.message.splitlines()[0]
        ) from error


class ReplicaSeeds:
    """Makes dropout of a built keras.Model differ between replicas."""

    def __init__(self, model: keras.Model):
        self._replica_id = None
        for layer in flatten_layers(model):
            if isinstance(layer, keras.layers.Dropout) and layer.rate:
                self._offset_seeds(layer.seed_generator)

    @contextlib.contextmanager
    def for_replica(self, replica_id: tf.Tensor) -> Iterator[None]:
        """Context with the seeds of a replica, whose id is int32 []."""
        self._replica_id = replica_id
        try:
            yield
        finally:
            self._replica_id = None

    def _offset_seeds(self, generator):
        draw_seed = generator.next

        def draw_for_replica(ordered=True):
            seed = draw_seed(ordered)
            if self._replica_id is None:
                return seed
            stride = tf.cast(_SEED_STRIDE, seed.dtype)
            offset = tf.cast(self._replica_id, seed.dtype) * stride
            return seed + tf.stack([offset, tf.zeros_like(offset)])

        generator.next = draw_for_replica
