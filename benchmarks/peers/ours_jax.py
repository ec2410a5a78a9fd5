"""This project's model on JAX: its updates, and its search, under jit."""

import itertools

import jax
import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from benchmarks.decoding.job import SentencePieces
from benchmarks.decoding.systems import load
from benchmarks.training_step.work import pack
from export.translators.text_ids import padded
from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.loss import projected_losses

# Source lengths are padded to multiples of it; each is compiled once. A GPU
# takes hardly longer for padding.
_STEP = {"cpu": 8, "gpu": 64}


class Updates:
    """The model, its loss and Adam in one jitted function.

    Args:
        config: TransformerConfig.
        precision: a Keras dtype policy.

    Attributes:
        model: Transformer. Each update takes its weights away; `keep` gives
            it those of all updates so far.
    """

    def __init__(self, config, precision):
        self.model = kt.Transformer(config, dtype=precision)
        self._optimizer = keras.optimizers.Adam(
            kt.TransformerSchedule(config.d_model, config.warmup_steps),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
        )
        self._optimizer.build(self.model.trainable_variables)
        self._state = tuple(
            [variable.value for variable in each] for each in self._variables()
        )
        self._update = jax.jit(self._one_update, donate_argnums=0)

    def _variables(self):
        return (
            self.model.trainable_variables,
            self.model.non_trainable_variables,
            self._optimizer.variables,
        )

    def make(self, inputs, labels):
        """Makes an update, without waiting for it.

        Args:
            inputs: as the model takes them.
            labels: int32 [B, T].

        Returns:
            The loss before it, a float32 scalar.
        """
        loss, self._state = self._update(self._state, inputs, labels)
        return loss

    def wait(self):
        """Returns when all updates have been made."""
        jax.block_until_ready(self._state)

    def keep(self):
        """Gives the model and the optimizer what the updates have made."""
        for variables, values in zip(self._variables(), self._state):
            for variable, value in zip(variables, values):
                variable.assign(value)

    def _one_update(self, state, inputs, labels):
        weights, others, optimizer = state
        (loss, others), gradients = jax.value_and_grad(
            self._loss_and_state, has_aux=True
        )(weights, others, inputs, labels)
        weights, optimizer = self._optimizer.stateless_apply(
            optimizer, gradients, weights
        )
        return loss, (weights, others, optimizer)

    def _loss_and_state(self, weights, others, inputs, labels):
        trained, rest, _ = self._variables()
        known = zip(trained, weights), zip(rest, others)
        with keras.StatelessScope(list(itertools.chain(*known))) as scope:
            loss = self._mean_loss(inputs, labels)
            # Such as the seeds of dropout, which each pass moves on.
            return loss, [scope.get_current_value(each) for each in rest]

    def _mean_loss(self, inputs, labels):
        """Returns what TrainingTransformer makes of the batch under XLA."""
        output = self.model.output_embedding
        losses = projected_losses(
            output.beside(self.model.states(inputs, training=True)),
            output.matrix(),
            labels,
            self.model.config.label_smoothing,
        )
        return ops.sum(losses.smoothed) / ops.sum(labels != PAD_ID)


class Step:
    """An update at a time, with batches that lie on the device.

    Args:
        job: StepJob.
        batches: list of (inputs, labels) as the model takes them.
    """

    framework = "jax"

    def __init__(self, job, batches):
        keras.utils.set_random_seed(1)
        self._updates = Updates(job.config, job.precision)
        self._batches = [jax.device_put(batch) for batch in batches]
        self.parameters = self._updates.model.count_params()
        self.note = (
            f"Keras {keras.__version__}, JAX {jax.__version__}, jitted step"
        )

    def run(self, shape):
        """Makes one update with a batch, waits for it, returns the loss."""
        loss = self._updates.make(*self._batches[shape])
        self._updates.wait()
        return float(loss)


def padded_step(job):
    """One pair a row."""
    return Step(job, [batch.padded for batch in job.batches])


def packed_step(job):
    """The same pairs in packed rows."""
    return Step(job, [pack(batch) for batch in job.batches])


class Search:
    """The search, compiled for each padded shape.

    Args:
        job: DecodeJob.
    """

    framework = "jax"

    def __init__(self, job):
        # Weights in bfloat16 too: those of the peers are.
        self._model = load(job.prepared, dtype=job.precision)
        self._pieces = SentencePieces(job.model)
        self._step = _STEP[job.device]
        self._weights = [weight.value for weight in self._model.weights]
        self._search = jax.jit(self._translate_ids)
        self.note = (
            f"kt.translate_ids under jit, Keras {keras.__version__}, JAX "
            f"{jax.__version__}, {job.precision}"
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        source = self._source(batch)
        tokens, scores = self._search(self._weights, source)
        rows = np.asarray(tokens).tolist()
        texts = self._pieces.text(
            [number for number in row if number > END_ID] for row in rows
        )
        return list(zip(texts, np.asarray(scores).tolist()))

    def _source(self, batch):
        width = -(-max(batch.source_lengths) // self._step) * self._step
        config = self._model.config
        if config.positions == "learned":
            width = min(width, config.max_positions)
        return padded(self._pieces.ids(batch.texts), width)

    def _translate_ids(self, weights, source):
        with keras.StatelessScope(zip(self._model.weights, weights)):
            room = kt.output_capacity(source, self._model.config)
            result = kt.translate_ids(self._model, source, room)
        return result.tokens[:, 0], result.scores[:, 0]
