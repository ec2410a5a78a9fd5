"""Nothing but matrix products: of a training step, and of a translation."""

import keras
import numpy as np
from keras import ops

from benchmarks.harness.matrix_products import (
    encoder_shapes,
    live_rows,
    step_shapes,
)
from benchmarks.training_step.work import products_work, square_work


class StepProducts:
    """Makes the products of a step, each forward and for both gradients.

    A framework's subclass has `_array`, `_multiply`, which is given both
    factors and the output's gradient, and `_wait`.

    Args:
        job: StepJob.
        work: function of the job and a batch; returns a list of Product.
    """

    def __init__(self, job, work):
        self._work = [
            [
                (product.count, self._factors(product))
                for product in work(job, batch)
            ]
            for batch in job.batches
        ]

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
            self._array(random.standard_normal(shape, dtype=np.float32))
            for shape in shapes
        ]

    def run(self, shape):
        """Makes the products of a step and waits for them."""
        last = None
        for count, factors in self._work[shape]:
            for _ in range(count):
                last = self._multiply(*factors)
        self._wait(last)
        return float("nan")


class OnTensorFlow(StepProducts):
    """StepProducts by tf.matmul."""

    framework = "tensorflow"

    def __init__(self, job, work):
        import tensorflow as tf

        self._tf = tf
        self._dtype = {"float32": tf.float32}.get(job.precision, tf.bfloat16)
        self.note = f"TensorFlow {tf.__version__}, tf.matmul"
        super().__init__(job, work)

    def _array(self, values):
        return self._tf.cast(values, self._dtype)

    def _multiply(self, left, right, output):
        matmul = self._tf.matmul
        return (
            matmul(left, right),
            matmul(output, right, transpose_b=True),
            matmul(left, output, transpose_a=True),
        )

    def _wait(self, last):
        del last
        self._tf.test.experimental.sync_devices()


class OnJax(StepProducts):
    """StepProducts by jnp.matmul under jit."""

    framework = "jax"

    def __init__(self, job, work):
        import jax

        self._jax = jax
        self._dtype = {"float32": "float32"}.get(job.precision, "bfloat16")
        self._multiply = jax.jit(_matmuls)
        self.note = f"JAX {jax.__version__}, jitted jnp.matmul"
        super().__init__(job, work)

    def _array(self, values):
        return self._jax.numpy.asarray(values, self._dtype)

    def _wait(self, last):
        self._jax.block_until_ready(last)


class OnTorch(StepProducts):
    """StepProducts by torch.matmul."""

    framework = "torch"

    def __init__(self, job, work):
        import torch

        from benchmarks.peers.torch_transformer import device

        self._torch = torch
        self._device = device(job)
        self._dtype = {"float32": torch.float32}.get(
            job.precision, torch.bfloat16
        )
        self.note = f"PyTorch {torch.__version__}, torch.matmul"
        super().__init__(job, work)

    def _array(self, values):
        return self._torch.from_numpy(values).to(self._device, self._dtype)

    def _multiply(self, left, right, output):
        return _matmuls(left, right, output)

    def _wait(self, last):
        del last
        if self._device == "cuda":
            self._torch.cuda.synchronize()


def _matmuls(left, right, output):
    return left @ right, output @ right.mT, left.mT @ output


def on_tensorflow(job):
    """All products of a step."""
    return OnTensorFlow(job, products_work)


def square_on_tensorflow(job):
    """One product of large square matrices."""
    return OnTensorFlow(job, square_work)


def on_jax(job):
    """All products of a step."""
    return OnJax(job, products_work)


def square_on_jax(job):
    """One product of large square matrices."""
    return OnJax(job, square_work)


def on_torch(job):
    """All products of a step."""
    return OnTorch(job, products_work)


class DecodeProducts:
    """Multiplies as often, and with as many rows, as decoding must.

    Every matrix is one of its own, so that as many bytes are read.

    Args:
        job: DecodeJob.
        compiled: function that makes a fast function of the decoder's steps.
    """

    def __init__(self, job, compiled):
        self._beam_size = job.config["beam_size"]
        self._width = job.config["d_model"]
        self._dtype = job.precision
        # Every source length is another shape; XLA would compile each.
        self._encode = self._loop(encoder_shapes(job.config), _graph)
        self._step = self._loop(step_shapes(job.config), compiled)
        self.note = f"{keras.backend.backend()}, matrix products in a loop"

    def translate(self, batch):
        """Multiplies for a batch and waits; returns no translation."""
        positions = len(batch.texts) * max(batch.source_lengths)
        last = [self._encode(self._rows(positions), _number(1))]
        for rows, steps in live_rows(batch.target_lengths, self._beam_size):
            last.append(self._step(self._rows(rows), _number(steps)))
        for each in last:
            ops.convert_to_numpy(each)
        return []

    def _rows(self, count):
        return ops.ones((count, self._width), self._dtype)

    def _loop(self, shapes, make_fast):
        random = np.random.default_rng(1)
        matrices = [
            ops.convert_to_tensor(
                random.standard_normal(shape, np.float32) * shape[0] ** -0.5,
                self._dtype,
            )
            for shape in shapes
        ]

        def run(states, steps, *matrices):
            _, states = ops.while_loop(
                lambda index, _: index < steps,
                lambda index, states: (index + 1, _chain(states, matrices)),
                (_number(0), states),
            )
            return states[:1]

        compiled = make_fast(run)
        return lambda states, steps: compiled(states, steps, *matrices)


def _chain(states, matrices):
    """Each product hangs on all of the one before, so none can be left out."""
    for matrix in matrices:
        states = ops.matmul(_inputs(states, matrix.shape[0]), matrix)
    return _inputs(states, matrices[0].shape[0])


def _inputs(states, width):
    extreme = ops.max(states, axis=-1, keepdims=True)
    return states[:, -width:] + 1e-6 * extreme


def _number(value):
    return ops.convert_to_tensor(value, "int32")


def of_decoding(job):
    """A plain graph in TensorFlow, jit in JAX."""
    return DecodeProducts(job, _graph)


def of_decoding_by_xla(job):
    """The decoder's steps compiled by XLA."""
    return DecodeProducts(job, _xla)


def _graph(run):
    if keras.backend.backend() == "jax":
        return _xla(run)
    import tensorflow as tf

    return tf.function(run, autograph=False, reduce_retracing=True)


def _xla(run):
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(run)
    import tensorflow as tf

    from export.translators.graphs import multiply_by_eigen

    multiply_by_eigen()
    return tf.function(run, autograph=False, jit_compile=True)
