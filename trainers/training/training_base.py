"""What training models have in common on TensorFlow and JAX.

`trainers.training.backend` makes the one of Keras' backend.
"""

import contextlib

import keras
from keras import ops

import keras_transformer as kt
from keras_transformer.config import PAD_ID
from keras_transformer.kernels import linear
from keras_transformer.loss import linear_cross_entropy, symmetric_divergence
from keras_transformer.schedule import update_schedule
from trainers.training.callbacks import TokenMeans


class AveragingAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` whose moving average has a warm-up."""

    def _update_model_variables_moving_average(self, trainable_variables):
        """Adds update n, from 0, with momentum min(ema_momentum, n / (n + 9)).

        With Keras' constant momentum, the initial weights would dominate the
        average for 1 / (1 - ema_momentum) updates.
        """
        if not self.use_ema:
            return
        updates = ops.cast(self.iterations, "float32")
        momentum = ops.minimum(updates / (updates + 9.0), self.ema_momentum)
        for variable, average in zip(
            trainable_variables, self._model_variables_moving_average
        ):
            change = ops.subtract(variable, average)
            average.assign(average + (1.0 - momentum) * change)

    def finalize_variable_values(self, var_list):
        """Does nothing at the end of fit, since another may follow."""

    def use_average(self, variables):
        """Replaces variables by their moving average, if there is one."""
        super().finalize_variable_values(variables)


class TrainingBase(kt.Transformer):
    """A Transformer with a loss and an optimizer, without a training step.

    Subclasses add data, steps and `distribute_strategy` of their backend.

    A batch is divided into `micro_batches`, computed one after the other to
    save memory; the update is the same.

    `signal_stop_flag` is 1.0 after a signal to stop, `time_stop_flag` after the
    end of the training time. Each step returns their sums over all workers.
    """

    optimizer_class = AveragingAdam

    def __init__(self, config, micro_batches=1, **kwargs):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.micro_batches = micro_batches
        self.signal_stop_flag = self.time_stop_flag = 0.0
        self.reset_metrics()

    def compile_for_training(self, ema=0.0):
        """Compiles with Adam and the schedule of the config (section 5.3)."""
        config = self.config
        optimizer = self.optimizer_class(
            update_schedule(config),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            use_ema=ema > 0.0,
            ema_momentum=ema or 0.99,
        )
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=False)

    def change_duration(self, config):
        """Gives the next `fit` the schedule of a config of another length."""
        self.config = config
        self.optimizer.learning_rate = update_schedule(config)
        # The schedule's numbers are constants of the compiled step.
        self.make_train_function(force=True)

    def training_data(self, batches, step):
        """Returns endless batches for `fit`, skipping the first `step` ones.

        `batches` are GroupedBatches or PlannedBatches. Of each global batch,
        (inputs, labels), see `make_batch`, a replica or process gets its rows.
        """
        raise NotImplementedError

    def evaluation_data(self, batches):
        """Returns the batches of epoch 0 of PlannedBatches for `evaluate`."""
        raise NotImplementedError

    def sync_variables(self):
        """Makes the variables those after the latest step of `fit`."""

    def use_average(self):
        """Replaces the weights by their moving average, if there is one."""
        self.optimizer.use_average(self.trainable_variables)

    @contextlib.contextmanager
    def averaged_weights(self):
        """Context with the moving average as weights, if there is one."""
        self.sync_variables()
        saved = []
        if self.optimizer.use_ema:
            saved = self._read_values(self.trainable_variables)
        self.use_average()
        try:
            yield
        finally:
            for variable, value in zip(self.trainable_variables, saved):
                variable.assign(value)

    def _read_values(self, variables):
        """Returns the values, which assignments will not change."""
        return [each.numpy() for each in variables]

    @property
    def metrics(self):
        """Empty, since steps return means over the global batch."""
        return []

    def reset_metrics(self):
        """Starts a new evaluation."""
        self._evaluation = TokenMeans()

    def loss_sums(self, labels, states, embeddings, bias=None):
        """Returns sums of loss, log-perplexity and accuracy over tokens."""
        sums = linear_cross_entropy(
            states,
            embeddings,
            labels,
            self.config.label_smoothing,
            bias,
            self._label_embeddings(labels),
        )
        return _loss_names(sums)

    def _label_embeddings(self, labels):
        """Returns the embeddings at the labels; None to look them up."""

    def training_sums(self, inputs, labels, embeddings, bias=None):
        """Returns `loss_sums` of a pass with dropout, of two with R-Drop."""
        passes = [
            self._select_target_positions(
                labels, self.hidden_states(inputs, training=True)[1]
            )
            for _ in range(2 if self.config.r_drop else 1)
        ]
        if self.config.r_drop:
            return self.r_drop_sums(passes, embeddings, bias)
        return self.loss_sums(*passes[0], embeddings, bias)

    def _select_target_positions(self, labels, states):
        """Returns labels and states, where the backend may drop padding."""
        return labels, states

    def r_drop_sums(self, passes, embeddings, bias=None):
        """Returns sums of two passes, with their divergence (R-Drop).

        `passes` are pairs of labels and states of the same batch.
        """
        labels = passes[0][0]
        projection = ops.transpose(embeddings)
        logits = [
            linear(ops.cast(states, "float32"), projection, bias, training=True)
            for _, states in passes
        ]
        first, second = (
            _loss_names(
                map(ops.sum, self.token_loss.token_losses(labels, each))
            )
            for each in logits
        )
        sums = {name: (first[name] + second[name]) / 2.0 for name in first}
        divergences = symmetric_divergence(*logits)
        mask = ops.cast(labels != PAD_ID, "float32")
        # Half of alpha, since the paper adds it to the sum of two losses.
        penalty = self.config.r_drop / 2.0 * ops.sum(divergences * mask)
        return sums | {"loss": sums["loss"] + penalty}


def _loss_names(sums):
    return dict(zip(("loss", "perplexity", "accuracy"), sums))


def mean_metrics(sums, tokens):
    """Returns the means over target tokens of the sums of `loss_sums`."""
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": ops.exp(sums["perplexity"] / tokens),
        "accuracy": sums["accuracy"] / tokens,
        "tokens": tokens,
    }


def count_tokens(labels):
    """Returns the number of target tokens, a float32 scalar."""
    return ops.sum(ops.cast(labels != PAD_ID, "float32"))
