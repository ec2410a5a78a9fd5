"""Nothing but the matrix products of a translation, on Keras' backend."""

import keras
import numpy as np
from keras import ops

from benchmarks.decoding.floor import encoder_shapes, live_rows, step_shapes


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


def make(job):
    """A plain graph in TensorFlow, jit in JAX."""
    return DecodeProducts(job, _graph)


def make_xla(job):
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

    from export.translators.compiled_translator import multiply_by_eigen

    multiply_by_eigen()
    return tf.function(run, autograph=False, jit_compile=True)
