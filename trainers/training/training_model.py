"""The Transformer with a training step for tf.distribute, and Adam.

An update on several replicas (devices of one or several machines):

1. `shard_for_replica` (`trainers/batches/token_pairs.py`) gives each replica
   rows of the global batch.
2. `train_step` counts the target tokens of all replicas.
3. `_loss_and_gradient` divides the sum of token losses of the replica, or of
   each micro-batch, by that count.
4. The optimizer sums the gradients over replicas: the gradient of the mean
   loss per token of the global batch. Keras would average the replicas' means.
"""

import typing
from collections.abc import Callable, Iterable, Iterator

import keras
import tensorflow as tf

from keras_transformer.config import PAD_ID, TransformerConfig
from trainers.batches import GroupedBatches, PlannedBatches, input_pipeline
from trainers.training.callbacks import TokenMeans
from trainers.training.strategies import ReplicaSeeds, has_gpu
from trainers.training.training_base import (
    AveragingAdam,
    TrainingBase,
    count_tokens,
    mean_metrics,
)


class FusedAdam(AveragingAdam):
    """AveragingAdam with one operation per variable.

    The update is memory-bound: Keras runs a dozen operations on arrays of the
    variable's size; TensorFlow's kernel reads and writes each array once.
    Formula and variables are the same. There is no `amsgrad`.
    """

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates moments and averages of variables."""
        if self.built:
            return
        super().build(variables)
        means, squares = (
            [each for each in self.variables if each.name.endswith(name)]
            for name in ("_momentum", "_velocity")
        )
        averages: list[tuple] = [(average,) for _, average in self._pairs()]
        averages = averages or [()] * len(variables)
        slots = [
            tuple(each.value for each in (variable, *moments, *average))
            for variable, *moments, average in zip(
                variables, means, squares, averages, strict=True
            )
        ]
        self._slots = lambda: slots

    def apply(
        self,
        grads: list[tf.Tensor],
        trainable_variables: list[keras.Variable] | None = None,
    ) -> None:
        """Updates all variables by gradients that it sums over replicas."""
        del trainable_variables  # Those of `build`, in their order.
        context = tf.distribute.get_replica_context()
        grads = context.all_reduce("SUM", grads)
        rate = tf.convert_to_tensor(self.learning_rate)
        step = tf.cast(self.iterations.value + 1, rate.dtype)
        # Corrects both biases, once for all variables.
        square_factor = 1 - tf.pow(tf.cast(self.beta_2, step.dtype), step)
        mean_factor = 1 - tf.pow(tf.cast(self.beta_1, step.dtype), step)
        rate = rate * tf.sqrt(square_factor) / mean_factor
        share = self._average_share(self.iterations.value)
        context.merge_call(self._update, args=(grads, rate, share))
        self.iterations.assign_add(1)

    def _update(self, strategy, grads, rate, share):
        for gradient, (variable, *slots) in zip(grads, self._slots()):
            strategy.extended.update(
                variable,
                self._update_variable,
                args=(gradient, rate, share, *slots),
                group=False,
            )

    def _update_variable(
        self, variable, gradient, rate, share, mean, square, average=None
    ):
        """Updates a tf.Variable with the bias-corrected rate."""
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=mean.handle,
            v=square.handle,
            # 0 disables the kernel's own bias correction.
            beta1_power=tf.zeros((), variable.dtype),
            beta2_power=tf.zeros((), variable.dtype),
            lr=tf.cast(rate, variable.dtype),
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
        )
        if average is not None:
            average.assign(average + share * (variable - average))


def non_padding_positions(
    labels: tf.Tensor, states: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns labels, int32 [N], and states, [N, D], without padding.

    Not for XLA, which would compile for each number of tokens.
    """
    labels = tf.reshape(labels, [-1])
    indices = tf.where(labels != PAD_ID)[:, 0]
    states = tf.reshape(states, [-1, states.shape[-1]])
    return tf.gather(labels, indices), tf.gather(states, indices)


class TrainingTransformer(TrainingBase):
    """A TrainingBase for `model.fit` under any tf.distribute strategy.

    Create and compile it in the strategy's scope. With `compile_gradient`, by
    default on GPUs, XLA compiles loss and gradient, once for each shape; Keras'
    `jit_compile` includes the strategy, which fails with several replicas.
    """

    optimizer_class = FusedAdam

    def __init__(
        self,
        config: TransformerConfig,
        compile_gradient: bool | None = None,
        **kwargs: typing.Any,
    ):
        super().__init__(config, **kwargs)
        if compile_gradient is None:
            compile_gradient = has_gpu()
        self.seeds = ReplicaSeeds(self)
        if not compile_gradient:
            self._select_target_positions = non_padding_positions  # type: ignore[method-assign]
        self._gradient = tf.function(
            self._loss_and_gradient,
            jit_compile=compile_gradient,
            autograph=False,
        )

    def training_data(
        self, batches: GroupedBatches | PlannedBatches, step: int
    ) -> tf.distribute.DistributedDataset:
        """See TrainingBase."""
        return input_pipeline.training_data(
            self.distribute_strategy, batches, step
        )

    def evaluation_data(
        self, batches: PlannedBatches
    ) -> tf.distribute.DistributedDataset:
        """See TrainingBase."""
        return input_pipeline.evaluation_data(self.distribute_strategy, batches)

    def make_train_function(self) -> Callable[[Iterator], dict[str, tf.Tensor]]:
        """See TrainingBase."""
        if self.train_function is None:
            run = self._run_on_replicas(self.train_step)
            self.train_function = lambda iterator: run(
                iterator,
                tf.constant([self.signal_stop_flag, self.time_stop_flag]),
            )
        return self.train_function

    def evaluate(self, data: Iterable, steps: int) -> dict[str, float]:
        """See TrainingBase."""
        if self.test_function is None:
            self.test_function = self._run_on_replicas(self.test_step)
        means, iterator = TokenMeans(), iter(data)
        for _ in range(steps):
            means.add(self.test_function(iterator))
        return means.means()

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

    def train_step(
        self,
        data: tuple[dict[str, tf.Tensor], tf.Tensor],
        stop_flags: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Updates the weights; returns means over the global batch.

        `data` are this replica's inputs and labels, `stop_flags` this worker's
        signal and time flags, float32 [2].
        """
        inputs, labels = data
        context = tf.distribute.get_replica_context()
        # The identity copies the flags to this device.
        tokens, stop_flags = context.all_reduce(
            "SUM", [count_tokens(labels), tf.identity(stop_flags)]
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
            **mean_metrics(context.all_reduce("SUM", sums), tokens),
            "learning_rate": learning_rate,
            "signal": stop_flags[0],
            "time_up": stop_flags[1],
        }

    def test_step(
        self, data: tuple[dict[str, tf.Tensor], tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Returns means over the global batch, without dropout."""
        inputs, labels = data
        context = tf.distribute.get_replica_context()
        _, states = self.hidden_states(inputs)
        labels, states = non_padding_positions(labels, states)
        output = self.output_embedding
        sums = self.loss_sums(labels, states, output.embeddings, output.bias)
        sums, tokens = context.all_reduce("SUM", [sums, count_tokens(labels)])
        return mean_metrics(sums, tokens)

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
            sums = self.training_sums(inputs, labels, *copies)
            # For the gradients alone, which the optimizer sums over replicas.
            loss = sums["loss"] / global_tokens
        variables = self.trainable_variables
        gradients, dense = tape.gradient(loss, [variables, copies])
        dense = dict(zip(map(id, weights), dense))
        return sums, [
            _add_gradients(dense.get(id(variable)), gradient)
            for variable, gradient in zip(variables, gradients)
        ]

    def _label_embeddings(self, labels):
        # Their gradient is sparse.
        return tf.gather(self.output_embedding.embeddings, labels)

    def _clip(self, gradients, context):
        gradients = context.all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        # Because the optimizer sums over replicas again.
        replicas = context.num_replicas_in_sync
        return [gradient / replicas for gradient in gradients]


def _add_gradients(dense, sparse):
    """Adds the gradients of a matrix and of rows gathered from it."""
    if dense is None or sparse is None:
        return tf.convert_to_tensor(sparse if dense is None else dense)
    return dense + tf.convert_to_tensor(sparse)
