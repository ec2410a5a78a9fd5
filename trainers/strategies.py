"""Which devices a training runs on."""

import tensorflow as tf

from export.errors import InputError

NAMES = ("auto", "one", "mirrored")


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
            machine (or all logical CPUs when it has none), "auto" for
            mirrored where there are several GPUs and one where not.

    Returns:
        tf.distribute.Strategy.

    Raises:
        InputError: there is no such strategy.
    """
    if name not in NAMES:
        raise InputError(
            f"There is no strategy {name!r}; there are: {', '.join(NAMES)}."
        )
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
