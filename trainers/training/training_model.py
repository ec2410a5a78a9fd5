"""The Transformer with a training step for tf.distribute, and Adam.

An update on several replicas (devices of one or several machines):

1. `shard_for_replica` (`trainers/batches/token_pairs.py`) gives each replica
   rows of the global batch.
2. `train_step` counts the target tokens of all replicas.
3. `_loss_and_gradient` divides the sum of token losses of the replica, or of
   each micro-batch, by that count.
4. The optimizer sums the gradients over replicas: the gradient of the mean
   loss per token of the global batch. Keras would average the replicas' means.

Overrides private methods of Keras, which any release may change: test_optimizer
detects it, and pyproject.toml allows only tested releases.
"""

import contextlib

import keras
import tensorflow as tf
from keras import ops

import keras_transformer as kt
from keras_transformer.config import PAD_ID
from keras_transformer.kernels import linear
from keras_transformer.loss import linear_cross_entropy, symmetric_divergence
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.schedule import update_schedule
from trainers.training.callbacks import TokenMeans
from trainers.training.strategies import ReplicaSeeds


class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` with one operation per variable.

    The update is memory-bound: Keras runs a dozen operations on arrays of the
    variable's size; TensorFlow's kernel reads and writes each array once.
    Formula and variables are the same. There is no `amsgrad`.
    """

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        """Corrects the rate for both biases, once for all variables."""
        step = ops.cast(self.iterations + 1, learning_rate.dtype)
        mean_factor = 1 - tf.pow(tf.cast(self.beta_1, step.dtype), step)
        square_factor = 1 - tf.pow(tf.cast(self.beta_2, step.dtype), step)
        rate = learning_rate * tf.sqrt(square_factor) / mean_factor
        super()._backend_update_step(grads, trainable_variables, rate)

    def update_step(self, gradient, variable, learning_rate):
        """Updates a tf.Variable with the bias-corrected rate."""
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            # 0 disables the kernel's own bias correction.
            beta1_power=tf.zeros((), variable.dtype),
            beta2_power=tf.zeros((), variable.dtype),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
        )

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


def non_padding_positions(labels, states):
    """Returns labels, int32 [N], and states, [N, D], without padding.

    Not for XLA, which would compile for each number of tokens.
    """
    labels = tf.reshape(labels, [-1])
    indices = tf.where(labels != PAD_ID)[:, 0]
    states = tf.reshape(states, [-1, states.shape[-1]])
    return tf.gather(labels, indices), tf.gather(states, indices)


class TrainingTransformer(kt.Transformer):
    """A Transformer for `model.fit` under any tf.distribute strategy.

    Create and compile it in the strategy's scope. With `compile_gradient`, XLA
    compiles loss and gradient, once for each shape; Keras' `jit_compile`
    includes the strategy, which fails with several replicas. A replica's batch
    is divided into `micro_batches`, computed one after the other to save
    memory; the update is the same.

    `signal_stop_flag` is 1.0 after a signal to stop, `time_stop_flag` after the
    end of the training time. Each step returns their sums over all workers.
    """

    def __init__(
        self, config, compile_gradient=False, micro_batches=1, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.seeds = ReplicaSeeds(self)
        self.micro_batches = micro_batches
        self._select_target_positions = (
            (lambda labels, states: (labels, states))
            if compile_gradient
            else non_padding_positions
        )
        self.signal_stop_flag = self.time_stop_flag = 0.0
        self.reset_metrics()
        self._gradient = tf.function(
            self._loss_and_gradient,
            jit_compile=compile_gradient,
            autograph=False,
        )

    def compile_for_training(self, ema=0.0):
        """Compiles with Adam and the schedule of the config (section 5.3)."""
        config = self.config
        optimizer = FusedAdam(
            update_schedule(config),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            use_ema=ema > 0.0,
            ema_momentum=ema or 0.99,
        )
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=False)

    def use_average(self):
        """Replaces the weights by their moving average, if there is one."""
        self.optimizer.finalize_variable_values(self.trainable_variables)

    @contextlib.contextmanager
    def averaged_weights(self):
        """Context with the moving average as weights, if there is one."""
        saved = []
        if self.optimizer.use_ema:
            saved = [each.numpy() for each in self.trainable_variables]
        self.use_average()
        try:
            yield
        finally:
            for variable, value in zip(self.trainable_variables, saved):
                variable.assign(value)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing: weights and optimizer are already built.

        Keras' method would reduce the first batch over replicas, which fails if
        shapes differ and on several machines (keras issue 20585).
        """

    @property
    def metrics(self):
        """Empty, since steps return means over the global batch."""
        return []

    def reset_metrics(self):
        """Starts a new evaluation."""
        self._evaluation = TokenMeans()

    def make_train_function(self, force=False):
        """Sets `train_function`, which fit calls with an iterator."""
        if self.train_function is not None and not force:
            return
        run = self._run_on_replicas(self.train_step)
        self.train_function = lambda iterator: run(
            iterator, tf.constant([self.signal_stop_flag, self.time_stop_flag])
        )

    def make_test_function(self, force=False):
        """Sets `test_function`, which returns the means so far."""
        if self.test_function is not None and not force:
            return
        run = self._run_on_replicas(self.test_step)

        def test(iterator):
            self._evaluation.add(run(iterator))
            return self._evaluation.means()

        self.test_function = test

    def _run_on_replicas(self, step):
        """Returns a function that runs a step on all replicas."""
        strategy = self.distribute_strategy

        @tf.function(autograph=False)
        def run(iterator, *arguments):
            outputs = strategy.run(step, args=(iterator.get_next(), *arguments))
            return {
                name: strategy.experimental_local_results(value)[0]
                for name, value in outputs.items()
            }

        return run

    def train_step(self, data, stop_flags):
        """Updates the weights; returns means over the global batch.

        `data` are this replica's inputs and labels, `stop_flags` this worker's
        signal and time flags, float32 [2].
        """
        inputs, labels = data
        context = tf.distribute.get_replica_context()
        # The identity copies the flags to this device.
        tokens, stop_flags = context.all_reduce(
            "SUM", [_count_tokens(labels), tf.identity(stop_flags)]
        )
        # A tensor, so that replicas share one compiled function.
        replica_id = tf.convert_to_tensor(
            context.replica_id_in_sync_group, tf.int32
        )
        compute = self._gradient
        if self.micro_batches > 1:
            compute = self._accumulated_gradient
        sums, gradients = compute(inputs, labels, tokens, replica_id)
        if self.config.clip_norm:
            gradients = self._clip(gradients, context)
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {
            **_mean_metrics(context.all_reduce("SUM", sums), tokens),
            "learning_rate": learning_rate,
            "signal": stop_flags[0],
            "time_up": stop_flags[1],
        }

    def test_step(self, data):
        """Returns means over the global batch, without dropout."""
        inputs, labels = data
        context = tf.distribute.get_replica_context()
        _, states = self.hidden_states(inputs)
        labels, states = non_padding_positions(labels, states)
        output = self.output_embedding
        sums = self._loss_sums(labels, states, output.embeddings, output.bias)
        sums, tokens = context.all_reduce("SUM", [sums, _count_tokens(labels)])
        return _mean_metrics(sums, tokens)

    def _accumulated_gradient(self, inputs, labels, tokens, replica_id):
        """Sums metrics and gradients over the micro-batches."""
        num_rows = tf.shape(labels)[0]

        def compute(index):
            first = num_rows * index // self.micro_batches
            last = num_rows * (index + 1) // self.micro_batches
            rows = {name: ids[first:last] for name, ids in inputs.items()}
            return self._gradient(rows, labels[first:last], tokens, replica_id)

        def add_micro_batch(index, totals):
            totals = tf.nest.map_structure(tf.add, totals, compute(index))
            return index + 1, totals

        # A loop, so that activations of one micro-batch exist at a time.
        _, totals = tf.while_loop(
            lambda index, _: index < self.micro_batches,
            add_micro_batch,
            (tf.constant(1), compute(0)),
            parallel_iterations=1,
        )
        return totals

    def _loss_and_gradient(self, inputs, labels, global_tokens, replica_id):
        """Returns sums over this replica's tokens, and normalized gradients."""
        # Copies separate the output layer's dense gradient from sparse ones of
        # embedding lookups, each of which would otherwise become dense.
        output = self.output_embedding
        weights = [output.embeddings]
        if output.bias is not None:
            weights.append(output.bias)
        copies = [tf.identity(weight.value) for weight in weights]
        with self.seeds.for_replica(replica_id), tf.GradientTape() as tape:
            tape.watch(copies)
            if self.config.r_drop:
                sums = self._r_drop_sums(inputs, labels, *copies)
            else:
                _, states = self.hidden_states(inputs, training=True)
                labels, states = self._select_target_positions(labels, states)
                sums = self._loss_sums(labels, states, *copies)
            # For the gradients alone, which the optimizer sums over replicas.
            loss = sums["loss"] / global_tokens
        variables = self.trainable_variables
        gradients, dense = tape.gradient(loss, [variables, copies])
        dense = dict(zip(map(id, weights), dense))
        return sums, [
            _add_gradients(dense.get(id(variable)), gradient)
            for variable, gradient in zip(variables, gradients)
        ]

    def _r_drop_sums(self, inputs, labels, embeddings, bias=None):
        """Returns sums of two passes, with their divergence (R-Drop)."""
        passes = [
            self._select_target_positions(
                labels, self.hidden_states(inputs, training=True)[1]
            )
            for _ in range(2)
        ]
        labels = passes[0][0]
        projection = tf.transpose(embeddings)
        logits = [
            linear(tf.cast(states, tf.float32), projection, bias, training=True)
            for _, states in passes
        ]
        first, second = (
            _sum_over_tokens(self.token_loss.token_losses(labels, each))
            for each in logits
        )
        sums = {name: (first[name] + second[name]) / 2.0 for name in first}
        divergences = symmetric_divergence(*logits)
        mask = tf.cast(labels != PAD_ID, tf.float32)
        # Half of alpha, since the paper adds it to the sum of two losses.
        penalty = self.config.r_drop / 2.0 * tf.reduce_sum(divergences * mask)
        return sums | {"loss": sums["loss"] + penalty}

    def _loss_sums(self, labels, states, embeddings, bias=None):
        """Returns sums of loss, log-perplexity and accuracy over tokens."""
        return _sum_over_tokens(
            linear_cross_entropy(
                states,
                embeddings,
                labels,
                self.config.label_smoothing,
                bias,
                tf.gather(self.output_embedding.embeddings, labels),
            )
        )

    def _clip(self, gradients, context):
        gradients = context.all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        # Because the optimizer sums over replicas again.
        replicas = context.num_replicas_in_sync
        return [gradient / replicas for gradient in gradients]


class TrainingParser(TrainingTransformer, ParserTransformer):
    """A TrainingTransformer with word positions."""


def new_training_model(config, **kwargs):
    """Returns a TrainingTransformer, or a TrainingParser for word positions."""
    if config.uses_word_positions:
        return TrainingParser(config, **kwargs)
    return TrainingTransformer(config, **kwargs)


def _add_gradients(dense, sparse):
    """Adds the gradients of a matrix and of rows gathered from it."""
    if dense is None or sparse is None:
        return tf.convert_to_tensor(sparse if dense is None else dense)
    return dense + tf.convert_to_tensor(sparse)


def _sum_over_tokens(losses):
    return {
        "loss": tf.reduce_sum(losses.smoothed),
        "perplexity": tf.reduce_sum(losses.plain),
        "accuracy": tf.reduce_sum(losses.correct),
    }


def _mean_metrics(sums, tokens):
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": tf.exp(sums["perplexity"] / tokens),
        "accuracy": sums["accuracy"] / tokens,
        "tokens": tokens,
    }


def _count_tokens(labels):
    return tf.reduce_sum(tf.cast(labels != PAD_ID, tf.float32))
