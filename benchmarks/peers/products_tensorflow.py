"""Matrix products in TensorFlow."""

import tensorflow as tf

from benchmarks.peers.keras_fit import peak_gpu_bytes, versions

__all__ = ["NOTE", "Multiply", "peak_gpu_bytes"]

NOTE = f"{versions()}, tf.matmul"


class Multiply:
    """Multiplies as a step does, there and back.

    Args:
        job: Job.
    """

    def __init__(self, job):
        self._dtype = {"float32": tf.float32}.get(job.precision, tf.bfloat16)

    def array(self, values):
        """Returns a tensor in the job's precision."""
        return tf.cast(values, self._dtype)

    def __call__(self, left, right, output):
        """Returns left @ right and both gradients, given the output's."""
        return (
            tf.matmul(left, right),
            tf.matmul(output, right, transpose_b=True),
            tf.matmul(left, output, transpose_a=True),
        )

    def wait(self, last):
        """Returns once all products are made."""
        del last
        tf.test.experimental.sync_devices()
