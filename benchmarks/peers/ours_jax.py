"""This project's model on JAX, through Keras' stateless interface."""

import jax
import keras

import keras_transformer as kt


class OursStateless:
    """Model, loss and Adam in one jitted function.

    Args:
        job: Job.
    """

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

    def peak_gpu_bytes(self):
        """Returns the most memory that arrays took on the GPU."""
        return peak_gpu_bytes()


def peak_gpu_bytes():
    """Returns the most memory that arrays took on the GPU."""
    return jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
