"""The Transformer with the training step that tf.distribute needs.

Keras normalises a loss per replica and averages the replicas, which weighs
tokens unequally when padding differs. Here the loss is the sum over target
tokens divided by the tokens of the global batch: of all replicas, all
machines and all micro-batches.
"""

import contextlib

import tensorflow as tf

import keras_transformer as kt
from keras_transformer.config import PAD_ID
from keras_transformer.kernels import linear
from keras_transformer.loss import projected_losses, symmetric_divergence
from keras_transformer.schedule import update_schedule
from trainers.training.callbacks import TokenMeans
from trainers.training.keras_internals import SkipSymbolicBuild
from trainers.training.optimizer import FusedAdam
from trainers.training.strategies import ReplicaSeeds, replicated_step


def non_padding_positions(labels, states):
    """Returns labels and states of the positions that are no padding.

    So no logits are made of padding, which are most of what a position
    costs. Their number differs from batch to batch, so this is not for XLA,
    which compiles for each shape anew.

    Args:
        labels: int32 [B, T], 0 on padding.
        states: float [B, T, D].

    Returns:
        int32 [N] and float [N, D].
    """
    labels = tf.reshape(labels, [-1])
    places = tf.where(labels != PAD_ID)[:, 0]
    states = tf.reshape(states, [-1, states.shape[-1]])
    return tf.gather(labels, places), tf.gather(states, places)


class TrainingTransformer(SkipSymbolicBuild, kt.Transformer):
    """A Transformer for `model.fit` under any tf.distribute strategy.

    Make and compile it inside the strategy's scope, and give fit what
    `trainers.batches.input_pipeline` makes.

    Args:
        config: TransformerConfig.
        compile_gradient: whether XLA compiles loss and gradient, once for
            each shape. Keras' own `jit_compile` wraps the strategy and
            breaks with several replicas.
        micro_batches: a replica's batch is worked off in so many parts of
            about as many rows, one after the other, to need less memory; the
            update is the same.
        **kwargs: of `keras.Model`.

    Attributes:
        votes: two numbers, each the sum over all workers of what they set
            it to, reported by every step: whether a signal to stop came, and
            whether the time is up. So all workers stop after the same step.
    """

    def __init__(
        self, config, compile_gradient=False, micro_batches=1, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.seeds = ReplicaSeeds(self)
        self.micro_batches = micro_batches
        if compile_gradient:
            self._select_target_positions = _all
        else:
            self._select_target_positions = non_padding_positions
        self.signal_stop_flag = self.time_stop_flag = 0.0
        self._evaluation = TokenMeans()
        self._gradient = tf.function(
            self._loss_and_gradient,
            jit_compile=compile_gradient,
            autograph=False,
        )

    def compile_for_training(self, ema=0.0):
        """Compiles with Adam, its values from the config (section 5.3).

        Args:
            ema: momentum of an exponential moving average of the weights,
                see `averaged_weights`; 0 for none.
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
        """Gives the weights the values of their average, if there is one."""
        self.optimizer.finalize_variable_values(self.trainable_variables)

    @contextlib.contextmanager
    def averaged_weights(self):
        """A block in which the weights are their average, if there is one."""
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
        """None: steps report figures of the global batch themselves."""
        return []

    def reset_metrics(self):
        """Begins a new evaluation."""
        self._evaluation = TokenMeans()

    def make_train_function(self, force=False):
        """Makes `train_function`, which fit calls with an iterator."""
        if self.train_function is not None and not force:
            return
        run = replicated_step(self.distribute_strategy, self.train_step)

        def train(iterator):
            return run(
                iterator,
                tf.constant([self.signal_stop_flag, self.time_stop_flag]),
            )

        self.train_function = train

    def make_test_function(self, force=False):
        """Makes `test_function`; it returns the means so far."""
        if self.test_function is not None and not force:
            return
        run = replicated_step(self.distribute_strategy, self.test_step)

        def test(iterator):
            self._evaluation.add(run(iterator))
            return self._evaluation.figures()

        self.test_function = test

    def train_step(self, data, votes):
        """Makes one update; returns the global batch's own figures.

        Args:
            data: inputs and labels of this replica.
            votes: float32 [2], of this worker.
        """
        inputs, labels = data
        replica = tf.distribute.get_replica_context()
        # The identity gives the votes, made outside, a place on this device.
        tokens, votes = replica.all_reduce(
            "SUM", [_count_tokens(labels), tf.identity(votes)]
        )
        sums, gradients = self._accumulated(
            inputs, labels, tokens, _number_of(replica)
        )
        if self.config.clip_norm:
            gradients = self._clip(gradients, replica)
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {
            **_means(replica.all_reduce("SUM", sums), tokens),
            "learning_rate": learning_rate,
            "signal": votes[0],
            "time_up": votes[1],
        }

    def test_step(self, data):
        """Measures one batch without dropout."""
        inputs, labels = data
        replica = tf.distribute.get_replica_context()
        real = non_padding_positions(labels, self.states(inputs))
        sums = self._sums(*real, self.output_embedding.matrix())
        sums, tokens = replica.all_reduce("SUM", [sums, _count_tokens(labels)])
        return _means(sums, tokens)

    def _accumulated(self, inputs, labels, tokens, replica):
        """Sums figures and gradients over the micro-batches."""
        if self.micro_batches == 1:
            return self._gradient(inputs, labels, tokens, replica)
        rows = tf.shape(labels)[0]

        def of_part(number):
            first, last = (
                rows * end // self.micro_batches for end in (number, number + 1)
            )
            part = tf.nest.map_structure(
                lambda each: each[first:last], (inputs, labels)
            )
            return self._gradient(*part, tokens, replica)

        def add(number, totals):
            more = of_part(number)
            return number + 1, tf.nest.map_structure(tf.add, totals, more)

        # A loop and not K calls side by side: one part's activations at a
        # time are the point of it.
        _, totals = tf.while_loop(
            lambda number, _: number < self.micro_batches,
            add,
            (tf.constant(1), of_part(0)),
            parallel_iterations=1,
        )
        return totals

    def _loss_and_gradient(self, inputs, labels, global_tokens, replica):
        # A tensor of its own, or each gradient of rows looked up in it would
        # be made as large as it is; so they are joined first.
        matrix = tf.identity(self.output_embedding.matrix())
        with self.seeds.of(replica), tf.GradientTape() as tape:
            tape.watch(matrix)
            sums = self._training_sums(inputs, labels, matrix)
            loss = sums["loss"] / global_tokens
        variables = self.trainable_variables
        *gradients, of_matrix = tape.gradient(loss, [*variables, matrix])
        if of_matrix is not None:
            parts = self.output_embedding.parts(of_matrix)
            of_parts = {id(variable): part for variable, part in parts}
            gradients = [
                _added(of_parts.get(id(variable)), gradient)
                for variable, gradient in zip(variables, gradients)
            ]
        return sums, [tf.convert_to_tensor(each) for each in gradients]

    def _training_sums(self, inputs, labels, matrix):
        if self.config.r_drop:
            return self._sums_of_two_passes(inputs, labels, matrix)
        return self._sums(*self._pass(inputs, labels), matrix)

    def _pass(self, inputs, labels):
        return self._select_target_positions(
            labels, self.states(inputs, training=True)
        )

    def _sums_of_two_passes(self, inputs, labels, matrix):
        passes = [self._pass(inputs, labels) for _ in range(2)]
        labels = passes[0][0]
        projection = tf.transpose(matrix)
        logits = [
            linear(
                self.output_embedding.beside(states), projection, training=True
            )
            for _, states in passes
        ]
        losses = [self.token_loss.token_losses(labels, each) for each in logits]
        sums = tf.nest.map_structure(
            lambda one, other: (one + other) / 2.0, *map(_summed, losses)
        )
        divergences = symmetric_divergence(*logits)
        real = tf.cast(labels != PAD_ID, tf.float32)
        # Half of alpha: theirs is added to the sum of the two losses.
        penalty = self.config.r_drop / 2.0 * tf.reduce_sum(divergences * real)
        return sums | {"loss": sums["loss"] + penalty}

    def _sums(self, labels, states, matrix):
        output = self.output_embedding
        rows = tf.gather(output.embeddings, labels)
        if output.bias is not None:
            of_labels = tf.gather(output.bias, labels)[..., None]
            rows = tf.concat([rows, of_labels], -1)
        return _summed(
            projected_losses(
                output.beside(states),
                matrix,
                labels,
                self.config.label_smoothing,
                rows,
            )
        )

    def _clip(self, gradients, replica):
        gradients = replica.all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        # The optimizer sums over replicas once more.
        replicas = replica.num_replicas_in_sync
        return [gradient / replicas for gradient in gradients]


def _all(labels, states):
    return labels, states


def _added(of_matrix, of_rows):
    """Adds the gradient of rows looked up to that of all rows, if there is."""
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


def _number_of(replica):
    # A tensor, so that replicas share one compiled function.
    return tf.convert_to_tensor(replica.replica_id_in_sync_group, tf.int32)


def _count_tokens(labels):
    return tf.reduce_sum(tf.cast(labels != PAD_ID, tf.float32))
