"""Matrix products in JAX."""

import jax
import jax.numpy as jnp

from benchmarks.peers.ours_jax import peak_gpu_bytes

__all__ = ["NOTE", "Multiply", "peak_gpu_bytes"]

NOTE = f"JAX {jax.__version__}, jitted jnp.matmul"


@jax.jit
def _multiply(left, right, output):
    return (
        left @ right,
        output @ jnp.swapaxes(right, -1, -2),
        jnp.swapaxes(left, -1, -2) @ output,
    )


class Multiply:
    """Multiplies as a step does, there and back.

    Args:
        job: Job.
    """

    def __init__(self, job):
        self._dtype = {"float32": "float32"}.get(job.precision, "bfloat16")

    def array(self, values):
        """Returns an array in the job's precision."""
        return jnp.asarray(values, self._dtype)

    def __call__(self, left, right, output):
        """Returns left @ right and both gradients, given the output's."""
        return _multiply(left, right, output)

    def wait(self, last):
        """Returns once all products are made."""
        jax.block_until_ready(last)
