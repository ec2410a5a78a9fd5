"""Nothing but matrix products, in whichever framework."""

import importlib

import numpy as np

from benchmarks.harness.matrix_products import products_work, square_work


def _maker(framework, work):
    """Returns a function of a job that makes Products."""
    return lambda job: Products(job, framework, work)


class Products:
    """Runs the products of a step, each forward and for both gradients.

    Args:
        job: Job.
        framework: name of a module beside this one that multiplies.
        work: function of the job and a batch; returns a list of Product.
    """

    parameters = None

    def __init__(self, job, framework, work):
        module = importlib.import_module(
            f"benchmarks.peers.products_{framework}"
        )
        self._multiply = module.Multiply(job)
        self._work = [
            [
                (product.count, self._factors(product))
                for product in work(job, batch)
            ]
            for batch in job.batches
        ]
        self.note = module.NOTE
        self.peak_gpu_bytes = module.peak_gpu_bytes

    def _factors(self, product):
        random = np.random.default_rng(1)
        sizes = {
            "left": (product.m, product.k),
            "right": (product.k, product.n),
            "output": (product.m, product.n),
        }
        shapes = [
            (product.batch, *size) if product.batch > 1 else size
            for size in sizes.values()
        ]
        return [
            self._multiply.array(
                random.standard_normal(shape, dtype=np.float32)
            )
            for shape in shapes
        ]

    def run(self, shape):
        """Makes the products of a step and waits for them."""
        last = None
        for count, factors in self._work[shape]:
            for _ in range(count):
                last = self._multiply(*factors)
        self._multiply.wait(last)
        return float("nan")


tensorflow = _maker("tensorflow", products_work)
tensorflow_square = _maker("tensorflow", square_work)
jax = _maker("jax", products_work)
jax_square = _maker("jax", square_work)
torch = _maker("torch", products_work)
