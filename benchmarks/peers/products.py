"""Only the matrix products of a training step or a translation."""

import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from benchmarks.training_job import step_work
from trainers.cost.flops import (
    decoder_matrices,
    encoder_matrices,
    memory_matrix,
    softmax_matrix,
)


class StepProducts:
    """Computes the products of a step, forward and for both gradients."""

    framework = keras.backend.backend()

    def __init__(self, job):
        self._dtype = job.precision.removeprefix("mixed_")
        self._multiply = _compile(_step_product, each_shape=True)
        self._work = [
            [
                (product.count, self._factors(product))
                for product in step_work(job, batch)
            ]
            for batch in job.batches
        ]
        self.note = f"{self.framework}, ops.matmul"

    def _factors(self, product):
        random = np.random.default_rng(1)
        batch = [product.batch] if product.batch > 1 else []
        return [
            ops.convert_to_tensor(
                random.standard_normal((*batch, *shape), np.float32),
                self._dtype,
            )
            for shape in (
                (product.m, product.k),
                (product.k, product.n),
                (product.m, product.n),
            )
        ]

    def run(self, number):
        last = ()
        for count, factors in self._work[number]:
            for _ in range(count):
                last = self._multiply(*factors)
        for product in last:
            ops.convert_to_numpy(product[..., :1, :1])
        return float("nan")


def _step_product(left, right, output):
    """Multiplies, and computes the gradients of both factors."""
    *batch, rows, columns = range(len(left.shape))
    swapped = [*batch, columns, rows]
    return (
        ops.matmul(left, right),
        ops.matmul(output, ops.transpose(right, swapped)),
        ops.matmul(ops.transpose(left, swapped), output),
    )


class DecodeProducts:
    """Computes as many products as decoding needs, of the same sizes.

    Every matrix is stored separately, so that as many bytes are read. With
    `xla`, TensorFlow compiles the decoder steps.
    """

    def __init__(self, job, xla=False):
        config = kt.TransformerConfig(**job.config)
        self._beam_size, self._width = config.beam_size, config.d_model
        self._dtype = job.precision
        # Source lengths vary, and XLA would compile each shape.
        self._encode = self._loop(encoder_shapes(config), xla=False)
        self._step = self._loop(step_shapes(config), xla)
        self.note = f"{keras.backend.backend()}, matrix products in a loop"

    def translate(self, batch):
        """Multiplies for a batch and waits; returns no translation."""
        positions = len(batch.texts) * max(batch.source_lengths)
        last = [self._encode(self._states(positions), _int32(1))]
        for rows, steps in live_rows(batch.target_lengths, self._beam_size):
            last.append(self._step(self._states(rows), _int32(steps)))
        for each in last:
            ops.convert_to_numpy(each)
        return []

    def _states(self, rows):
        return ops.ones((rows, self._width), self._dtype)

    def _loop(self, shapes, xla):
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
                (_int32(0), states),
            )
            return states[:1]

        compiled = _compile(run, xla)
        return lambda states, steps: compiled(states, steps, *matrices)


def _chain(states, matrices):
    """Makes each product depend on the one before, so that none is skipped."""
    for matrix in matrices:
        states = ops.matmul(_inputs(states, matrix.shape[0]), matrix)
    return _inputs(states, matrices[0].shape[0])


def _inputs(states, width):
    extreme = ops.max(states, axis=-1, keepdims=True)
    return states[:, -width:] + 1e-6 * extreme


def _int32(value):
    return ops.convert_to_tensor(value, "int32")


def _compile(function, xla=False, each_shape=False):
    """Returns a jitted function on JAX, a graph function on TensorFlow."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    if not xla:
        return tf.function(
            function, autograph=False, reduce_retracing=not each_shape
        )
    from export.translators.graph_translator import disable_ynnpack

    disable_ynnpack()
    return tf.function(function, autograph=False, jit_compile=True)


def encoder_shapes(config):
    """Returns matrix shapes (rows, columns) used per source position."""
    encoder = config.num_layers * encoder_matrices(config)
    memory = config.decoder_layers * [memory_matrix(config)]
    return [(each.rows, each.columns) for each in encoder + memory]


def step_shapes(config):
    """Returns matrix shapes (rows, columns) used per target position."""
    decoder = config.decoder_layers * decoder_matrices(config)
    return [
        (each.rows, each.columns) for each in [*decoder, softmax_matrix(config)]
    ]


def live_rows(target_lengths, beam_size):
    """Returns (rows, steps) of decoder steps, in order.

    Finished sentences have no rows.
    """
    runs, done = [], 0
    for number, length in enumerate(sorted(target_lengths)):
        if length > done:
            rows = beam_size * (len(target_lengths) - number)
            runs.append((rows, length - done))
            done = length
    return runs
