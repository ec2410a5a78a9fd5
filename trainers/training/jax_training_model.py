"""The Transformer with a training step for JAX.

A step is one compiled function of the global batch, whose rows XLA divides
among the devices of a JaxStrategy.
"""

import itertools
import types
import typing
from collections.abc import Callable, Iterator

import jax
import keras
import numpy as np
from keras import ops, tree

from keras_transformer.config import TransformerConfig
from keras_transformer.types import Tensor
from trainers.batches import GroupedBatches, PlannedBatches
from trainers.training.callbacks import TokenMeans
from trainers.training.jax_strategies import JaxStrategy
from trainers.training.training_base import (
    TrainingBase,
    count_tokens,
    mean_metrics,
)


class TrainingTransformer(TrainingBase):
    """A TrainingBase for `model.fit` on the devices of a JaxStrategy.

    Create it in the strategy's scope, in which `fit` must run, too.
    """

    def __init__(
        self,
        config: TransformerConfig,
        compile_gradient: bool | None = None,
        **kwargs: typing.Any,
    ):
        del compile_gradient  # JAX always compiles.
        super().__init__(config, **kwargs)
        self.distribute_strategy = JaxStrategy.current()
        # Values that the variables do not have yet, else None. Keras would wrap
        # lists that are attributes.
        self._latest = types.SimpleNamespace(state=None)
        self._evaluate_batch = jax.jit(self._compute_means)

    def training_data(
        self, batches: GroupedBatches | PlannedBatches, step: int
    ) -> Iterator:
        """See TrainingBase."""
        for arrays in batches.from_step(step):
            yield tree.map_structure(
                lambda rows: self.distribute_strategy.local_rows(
                    rows, self.micro_batches
                ),
                arrays,
            )

    def evaluation_data(
        self, batches: PlannedBatches
    ) -> Callable[[], Iterator]:
        """See TrainingBase."""

        def iterate_batches():
            for arrays in batches.epoch(0):
                yield tree.map_structure(
                    self.distribute_strategy.local_rows, arrays
                )

        return iterate_batches

    def _variable_groups(self):
        return (
            self.trainable_variables,
            self.non_trainable_variables,
            self.optimizer.variables,
        )

    def sync_variables(self) -> None:
        """See TrainingBase; the next step begins from the variables."""
        groups = self._variable_groups()
        for variables, values in zip(groups, self._latest.state or ()):
            for variable, value in zip(variables, values):
                variable.assign(value)
        self._latest.state = None

    def _read_values(self, variables):
        # Assigning NumPy arrays would wait for all processes, and this one may
        # be alone. No operation changes a JAX array.
        return [each.value for each in variables]

    def make_train_function(self) -> Callable[[Iterator], dict[str, Tensor]]:
        """See TrainingBase."""
        if self.train_function is not None:
            return self.train_function
        strategy = self.distribute_strategy
        update = jax.jit(
            self.train_step,
            donate_argnums=0,
            # Else XLA might divide weights among the devices.
            out_shardings=(None, strategy.sharding()),
        )

        def run(iterator):
            flags = self.signal_stop_flag, self.time_stop_flag
            rows = np.tile(np.float32(flags), (jax.local_device_count(), 1))
            state = self._latest.state or [
                [each.value for each in group]
                for group in self._variable_groups()
            ]
            logs, self._latest.state = update(
                state,
                tree.map_structure(strategy.distribute, next(iterator)),
                strategy.distribute(rows),
            )
            return logs

        self.train_function = run
        return run

    def train_step(
        self,
        state: list[list[Tensor]],
        data: tuple[dict[str, Tensor], Tensor],
        stop_flags: Tensor,
    ) -> tuple[dict[str, Tensor], list[list[Tensor]]]:
        """Updates the state; returns means over the batch, and the state.

        `state` has the values of trainable, other and optimizer variables.
        `stop_flags` has a row of signal and time flag for each
        device, float32 [N, 2].
        """
        weights, others, optimizer_state = state
        tokens = count_tokens(data[1])
        compute = jax.value_and_grad(self._compute_loss, has_aux=True)
        if self.micro_batches == 1:
            (_, (sums, others)), gradients = compute(
                weights, others, data, tokens
            )
        else:
            sums, others, gradients = self._accumulate(
                compute, weights, others, data, tokens
            )
        if self.config.clip_norm:
            gradients = _clip(gradients, self.config.clip_norm)
        with keras.StatelessScope(
            [*zip(self.optimizer.variables, optimizer_state)]
        ):
            learning_rate = self.optimizer.learning_rate
        weights, optimizer_state = self.optimizer.stateless_apply(
            optimizer_state, gradients, weights
        )
        signal, time_up = ops.max(stop_flags, axis=0)
        logs = {
            **mean_metrics(sums, tokens),
            "learning_rate": learning_rate,
            "signal": signal,
            "time_up": time_up,
        }
        return logs, [weights, others, optimizer_state]

    def _accumulate(self, compute, weights, others, data, tokens):
        """Sums metrics and gradients over the micro-batches."""
        count = self.micro_batches
        # Each device divides its own rows.
        data = tree.map_structure(
            lambda rows: ops.reshape(rows, (-1, count, rows.shape[1])), data
        )

        def add_micro_batch(totals, index):
            sums, others, gradients = totals
            rows = tree.map_structure(lambda each: each[:, index], data)
            (_, (more, others)), added = compute(weights, others, rows, tokens)
            sums, gradients = jax.tree.map(
                ops.add, (sums, gradients), (more, added)
            )
            return (sums, others, gradients), None

        zeros = dict.fromkeys(("loss", "perplexity", "accuracy"), 0.0)
        start = zeros, others, [ops.zeros_like(each) for each in weights]
        totals, _ = jax.lax.scan(
            add_micro_batch,
            jax.tree.map(ops.convert_to_tensor, start),
            np.arange(count),
        )
        return totals

    def _compute_loss(self, weights, others, data, global_tokens):
        """Returns the loss per token, and sums and new other variables."""
        inputs, labels = data
        output = self.output_embedding
        with self._scope(weights, others) as scope:
            sums = self.training_sums(
                inputs, labels, output.embeddings, output.bias
            )
            # Seeds of dropout, which change in each pass.
            others = [
                scope.get_current_value(each)
                for each in self.non_trainable_variables
            ]
        return sums["loss"] / global_tokens, (sums, others)

    def evaluate(
        self, data: Callable[[], Iterator], steps: int
    ) -> dict[str, float]:
        """See TrainingBase."""
        means = TokenMeans()
        state = [
            [variable.value for variable in variables]
            for variables in (
                self.trainable_variables,
                self.non_trainable_variables,
            )
        ]
        for batch in itertools.islice(data(), steps):
            batch = tree.map_structure(
                self.distribute_strategy.distribute, batch
            )
            means.add(self._evaluate_batch(*state, batch))
        return means.means()

    def _compute_means(self, weights, others, data):
        inputs, labels = data
        output = self.output_embedding
        with self._scope(weights, others):
            _, states = self.hidden_states(inputs)
            sums = self.loss_sums(
                labels, states, output.embeddings, output.bias
            )
        return mean_metrics(sums, count_tokens(labels))

    def _scope(self, weights, others):
        """Returns a context in which variables have these values."""
        return keras.StatelessScope(
            [
                *zip(self.trainable_variables, weights),
                *zip(self.non_trainable_variables, others),
            ]
        )


def _clip(gradients, limit):
    """Scales gradients to a global norm of at most `limit`."""
    norm = ops.sqrt(sum(ops.sum(ops.square(each)) for each in gradients))
    return [each * (limit / ops.maximum(norm, limit)) for each in gradients]
