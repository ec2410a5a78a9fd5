"""This project's training step and beam search on JAX, under jit."""

import itertools

import jax
import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from benchmarks.decoding_job import SentencePieces, load_model
from benchmarks.training_job import pack
from export.translators.batches import pad_ids
from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.loss import linear_cross_entropy

# Source lengths are padded to multiples, each compiled once. Padding costs
# little time on a GPU.
_LENGTH_MULTIPLE = {"cpu": 8, "gpu": 64}


class Step:
    """Model, loss and Adam in one jitted function."""

    framework = "jax"

    def __init__(self, job, packed=False):
        keras.utils.set_random_seed(1)
        config = job.config
        self._model = kt.Transformer(config, dtype=job.precision)
        self._optimizer = keras.optimizers.Adam(
            kt.TransformerSchedule(config.d_model, config.warmup_steps),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
        )
        self._optimizer.build(self._model.trainable_variables)
        self._state = tuple(
            [variable.value for variable in each]
            for each in (
                self._model.trainable_variables,
                self._model.non_trainable_variables,
                self._optimizer.variables,
            )
        )
        self._update = jax.jit(self._one_update, donate_argnums=0)
        self._batches = [
            jax.device_put(pack(batch) if packed else batch.pad_ids)
            for batch in job.batches
        ]
        self.parameters = self._model.count_params()
        self.note = (
            f"Keras {keras.__version__}, JAX {jax.__version__}, jitted step"
        )

    def run(self, number):
        loss, self._state = self._update(self._state, *self._batches[number])
        jax.block_until_ready(self._state)
        return float(loss)

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
        rest = self._model.non_trainable_variables
        values = itertools.chain(
            zip(self._model.trainable_variables, weights), zip(rest, others)
        )
        with keras.StatelessScope(list(values)) as scope:
            loss = self._mean_loss(inputs, labels)
            # For example the seeds of dropout, which change in each pass.
            return loss, [scope.get_current_value(each) for each in rest]

    def _mean_loss(self, inputs, labels):
        """Returns the loss that TrainingTransformer computes under XLA."""
        output = self._model.output_embedding
        _, states = self._model.hidden_states(inputs, training=True)
        losses = linear_cross_entropy(
            states,
            output.embeddings,
            labels,
            self._model.config.label_smoothing,
            output.bias,
        )
        return ops.sum(losses.smoothed) / ops.sum(labels != PAD_ID)


class Search:
    """Beam search, compiled for each padded shape."""

    framework = "jax"

    def __init__(self, job):
        # Like the other systems, with bfloat16 weights if requested.
        self._model = load_model(job, dtype=job.precision)
        self._pieces = SentencePieces(job.model)
        self._multiple = _LENGTH_MULTIPLE[job.device]
        self._weights = [weight.value for weight in self._model.weights]
        self._search = jax.jit(self._translate_ids)
        self.note = (
            f"kt.translate_ids under jit, Keras {keras.__version__}, JAX "
            f"{jax.__version__}, {job.precision}"
        )

    def translate(self, batch):
        width = -(-max(batch.source_lengths) // self._multiple) * self._multiple
        config = self._model.config
        if config.positions == "learned":
            width = min(width, config.max_positions)
        source = pad_ids(self._pieces.ids(batch.texts), width)
        tokens, scores = self._search(self._weights, source)
        texts = self._pieces.text(
            [token for token in row if token > END_ID]
            for row in np.asarray(tokens).tolist()
        )
        return list(zip(texts, np.asarray(scores).tolist()))

    def _translate_ids(self, weights, source):
        with keras.StatelessScope(zip(self._model.weights, weights)):
            result = kt.translate_ids(self._model, source)
        return result.tokens[:, 0], result.scores[:, 0]
