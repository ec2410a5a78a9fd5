"""The Transformer with a training step for tf.distribute.

An update on several replicas (devices of one or several machines):

1. `shard_for_replica` of `trainers/batches/collate.py` gives each replica rows
   of the global batch.
2. `train_step` sums the numbers of target tokens over all replicas.
3. `_loss_and_gradient` divides the replica's sum of token losses, or that of
   each micro-batch, by that number.
4. The optimizer sums the gradients over replicas: the gradient of the mean
   loss per token of the global batch. Keras would average the replicas' means,
   which weighs tokens unequally when padding differs.
"""

import contextlib

import tensorflow as tf

import keras_transformer as kt
from keras_transformer.config import PAD_ID
from keras_transformer.kernels import linear
from keras_transformer.loss import linear_cross_entropy, symmetric_divergence
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.schedule import update_schedule
from trainers.training.callbacks import TokenMeans
from trainers.training.keras_internals import SkipSymbolicBuild
from trainers.training.optimizer import FusedAdam
from trainers.training.strategies import ReplicaSeeds


def non_padding_positions(labels, states):
    """Returns labels and states of the positions that are not padding.

    Saves the logits of padding, which dominate the cost of a position. Not for
    XLA, which would compile for each number of tokens.

    Takes int32 [B, T], 0 on padding, and float [B, T, D]; returns int32 [N]
    and float [N, D].
    """
    labels = tf.reshape(labels, [-1])
    indices = tf.where(labels != PAD_ID)[:, 0]
    states = tf.reshape(states, [-1, states.shape[-1]])
    return tf.gather(labels, indices), tf.gather(states, indices)


class TrainingTransformer(SkipSymbolicBuild, kt.Transformer):
    """A Transformer for `model.fit` under any tf.distribute strategy.

    Create and compile it in the strategy's scope; get the data for fit from
    `trainers.batches.input_pipeline`.

    With `compile_gradient`, XLA compiles loss and gradient, once for each
    shape; Keras' `jit_compile` includes the strategy, which fails with several
    replicas. `micro_batches` is the number of parts of a replica's batch,
    computed one after the other to save memory; the update is the same.

    Attributes:
        signal_stop_flag: 1.0 after a signal to stop, else 0.0. Each step
            returns the sum over all workers, so all stop after the same step.
        time_stop_flag: the same for the end of the training time.
    """

    def __init__(
        self, config, compile_gradient=False, micro_batches=1, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.seeds = ReplicaSeeds(self)
        self.micro_batches = micro_batches
        # XLA needs static shapes.
        self._select_target_positions = (
            (lambda labels, states: (labels, states))
            if compile_gradient
            else non_padding_positions
        )
        self.signal_stop_flag = self.time_stop_flag = 0.0
        self._evaluation = TokenMeans()
        self._gradient = tf.function(
            self._loss_and_gradient,
            jit_compile=compile_gradient,
            autograph=False,
        )

    def compile_for_training(self, ema=0.0):
        """Compiles with Adam and the schedule of the config (section 5.3).

        `ema` is the momentum of an exponential moving average of the weights;
        0 for none.
        """
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
        before = []
        if self.optimizer.use_ema:
            before = [each.numpy() for each in self.trainable_variables]
        self.use_average()
        try:
            yield
        finally:
            for variable, value in zip(self.trainable_variables, before):
                variable.assign(value)

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
        run = self._replicated(self.train_step)
        self.train_function = lambda iterator: run(
            iterator, tf.constant([self.signal_stop_flag, self.time_stop_flag])
        )

    def make_test_function(self, force=False):
        """Sets `test_function`, which returns the means so far."""
        if self.test_function is not None and not force:
            return
        run = self._replicated(self.test_step)

        def test(iterator):
            self._evaluation.add(run(iterator))
            return self._evaluation.means()

        self.test_function = test

    def _replicated(self, step):
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
            **_means(context.all_reduce("SUM", sums), tokens),
            "learning_rate": learning_rate,
            "signal": stop_flags[0],
            "time_up": stop_flags[1],
        }

    def test_step(self, data):
        """Returns means over the global batch, without dropout."""
        inputs, labels = data
        context = tf.distribute.get_replica_context()
        _, states = self.hidden_states(inputs)
        real = non_padding_positions(labels, states)
        output = self.output_embedding
        sums = self._sums(*real, output.embeddings, output.bias)
        sums, tokens = context.all_reduce("SUM", [sums, _count_tokens(labels)])
        return _means(sums, tokens)

    def _accumulated_gradient(self, inputs, labels, tokens, replica_id):
        """Sums metrics and gradients over the micro-batches."""
        rows = tf.shape(labels)[0]

        def of_part(number):
            first, last = (
                rows * end // self.micro_batches for end in (number, number + 1)
            )
            part = tf.nest.map_structure(
                lambda each: each[first:last], (inputs, labels)
            )
            return self._gradient(*part, tokens, replica_id)

        def add(number, totals):
            more = of_part(number)
            return number + 1, tf.nest.map_structure(tf.add, totals, more)

        # A loop, so that activations of only one part exist at a time.
        _, totals = tf.while_loop(
            lambda number, _: number < self.micro_batches,
            add,
            (tf.constant(1), of_part(0)),
            parallel_iterations=1,
        )
        return totals

    def _loss_and_gradient(self, inputs, labels, global_tokens, replica_id):
        """Returns sums over this replica's tokens, and gradients."""
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
                real = self._select_target_positions(labels, states)
                sums = self._sums(*real, *copies)
            loss = sums["loss"] / global_tokens
        variables = self.trainable_variables
        gradients, by_copies = tape.gradient(loss, [variables, copies])
        by_output = dict(zip(map(id, weights), by_copies))
        gradients = [
            _added(by_output.get(id(variable)), gradient)
            for variable, gradient in zip(variables, gradients)
        ]
        return sums, [tf.convert_to_tensor(each) for each in gradients]

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
        losses = [self.token_loss.token_losses(labels, each) for each in logits]
        sums = tf.nest.map_structure(
            lambda one, other: (one + other) / 2.0, *map(_summed, losses)
        )
        divergences = symmetric_divergence(*logits)
        real = tf.cast(labels != PAD_ID, tf.float32)
        # Half of alpha, since the paper adds it to the sum of two losses.
        penalty = self.config.r_drop / 2.0 * tf.reduce_sum(divergences * real)
        return sums | {"loss": sums["loss"] + penalty}

    def _sums(self, labels, states, embeddings, bias=None):
        """Returns sums of loss, log-perplexity and accuracy over tokens."""
        return _summed(
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


def _added(of_matrix, of_rows):
    """Adds the gradients of a matrix and of rows gathered from it."""
    if of_matrix is None or of_rows is None:
        return of_rows if of_matrix is None else of_matrix
    return of_matrix + tf.convert_to_tensor(of_rows)


def _summed(losses):
    return {
        "loss": tf.reduce_sum(losses.smoothed),
        "perplexity": tf.reduce_sum(losses.plain),
        "accuracy": tf.reduce_sum(losses.correct),
    }


def _means(sums, tokens):
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": tf.exp(sums["perplexity"] / tokens),
        "accuracy": sums["accuracy"] / tokens,
        "tokens": tokens,
    }


def _count_tokens(labels):
    return tf.reduce_sum(tf.cast(labels != PAD_ID, tf.float32))
