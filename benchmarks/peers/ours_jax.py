"""This project's model on JAX: a training step, and the search under jit."""

import jax
import keras
import numpy as np

import keras_transformer as kt
from benchmarks.decoding.job import Pieces
from benchmarks.decoding.systems import load
from export.translators.text_ids import padded
from keras_transformer.config import END_ID

# Source lengths are padded to multiples of it; each is compiled once.
_STEP = 8


class Step:
    """Model, loss and Adam in one jitted function.

    Args:
        job: StepJob.
    """

    framework = "jax"

    def __init__(self, job):
        keras.utils.set_random_seed(1)
        config = job.config
        self._model = kt.Transformer(config, dtype=job.precision)
        self._loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self._optimizer = keras.optimizers.Adam(
            kt.TransformerSchedule(config.d_model, config.warmup_steps),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
        )
        self._optimizer.build(self._model.trainable_variables)
        self._state = tuple(
            [variable.value for variable in variables]
            for variables in (
                self._model.trainable_variables,
                self._model.non_trainable_variables,
                self._optimizer.variables,
            )
        )
        self._batches = [
            jax.device_put((batch.source, batch.target, batch.labels))
            for batch in job.batches
        ]
        self._update = jax.jit(self._one_update, donate_argnums=0)
        self.parameters = self._model.count_params()
        self.note = (
            f"Keras {keras.__version__}, JAX {jax.__version__}, jitted step"
        )

    def _one_update(self, state, batch):
        weights, others, optimizer = state
        (loss, others), gradients = jax.value_and_grad(
            self._loss_and_state, has_aux=True
        )(weights, others, batch)
        weights, optimizer = self._optimizer.stateless_apply(
            optimizer, gradients, weights
        )
        return loss, (weights, others, optimizer)

    def _loss_and_state(self, weights, others, batch):
        source, target, labels = batch
        logits, others = self._model.stateless_call(
            weights,
            others,
            {"source": source, "target": target},
            training=True,
        )
        return self._loss(labels, logits), others

    def run(self, shape):
        """Makes one update with a batch, waits for it, returns the loss."""
        loss, self._state = self._update(self._state, self._batches[shape])
        jax.block_until_ready(self._state)
        return float(loss)


class Search:
    """The search, compiled for each padded shape.

    Args:
        job: DecodeJob.
    """

    framework = "jax"

    def __init__(self, job):
        # Weights in bfloat16 too: those of the peers are.
        self._model = load(job.prepared, dtype=job.precision)
        self._pieces = Pieces(job.model)
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
        width = -(-max(batch.source_lengths) // _STEP) * _STEP
        config = self._model.config
        if config.positions == "learned":
            width = min(width, config.max_positions)
        return padded(self._pieces.ids(batch.texts), width)

    def _translate_ids(self, weights, source):
        with keras.StatelessScope(zip(self._model.weights, weights)):
            room = kt.output_capacity(source, self._model.config)
            result = kt.translate_ids(self._model, source, room)
        return result.tokens[:, 0], result.scores[:, 0]
