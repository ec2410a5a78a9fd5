"""What training models have in common on TensorFlow and JAX.

`trainers.training.backend` makes the one of Keras' backend.
"""

import contextlib
import typing
from collections.abc import Callable, Iterable, Iterator

import keras
from keras import ops

import keras_transformer as kt
from keras_transformer.config import PAD_ID
from keras_transformer.kernels import linear
from keras_transformer.loss import linear_cross_entropy, symmetric_divergence
from keras_transformer.schedule import update_schedule
from keras_transformer.types import Tensor
from trainers.batches import GroupedBatches, PlannedBatches


class AveragingAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` with a moving average that has a warm-up.

    The average takes in update n, from 0, with momentum min(average_momentum,
    n / (n + 9)): with a constant momentum, as Keras' own, the initial weights
    would dominate it for 1 / (1 - average_momentum) updates. There is none if
    `average_momentum` is 0.
    """

    def __init__(
        self,
        *args: typing.Any,
        average_momentum: float = 0.0,
        **kwargs: typing.Any,
    ):
        super().__init__(*args, **kwargs)
        self.average_momentum = average_momentum

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates moments and averages of variables."""
        if self.built:
            return
        super().build(variables)
        averaged = [*variables] if self.average_momentum else []
        averages = [
            self.add_variable_from_reference(each, name="average")
            for each in averaged
        ]
        # A function, since Keras counts lists of variables as the optimizer's.
        self._pairs = lambda: zip(averaged, averages)

    def apply(
        self,
        grads: list[Tensor],
        trainable_variables: list[keras.Variable] | None = None,
    ) -> None:
        """Updates the variables by their gradients, then the averages."""
        super().apply(grads, trainable_variables)
        share = self._average_share(self.iterations - 1)
        for variable, average in self._pairs():
            change = ops.subtract(variable, average)
            average.assign(average + share * change)

    def _average_share(self, num_updates):
        """Returns the share of the weights of an update in the average."""
        updates = ops.cast(num_updates, "float32")
        momentum = ops.minimum(updates / (updates + 9.0), self.average_momentum)
        return 1.0 - momentum

    def use_average(self) -> None:
        """Replaces the variables by their moving average, if there is one."""
        for variable, average in self._pairs():
            variable.assign(average)


class TrainingBase(kt.Transformer):
    """A Transformer with a loss and an optimizer, without a training step.

    Subclasses add data, steps and `distribute_strategy` of their backend.

    A batch is divided into `micro_batches`, computed one after the other to
    save memory; the update is the same.

    `signal_stop_flag` is 1.0 after a signal to stop, `time_stop_flag` after the
    end of the training time. Each step returns their sums over all workers.
    """

    optimizer_class = AveragingAdam
    # Of keras.Model.
    train_function: typing.Any
    test_function: typing.Any

    def __init__(
        self,
        config: kt.TransformerConfig,
        micro_batches: int = 1,
        **kwargs: typing.Any,
    ):
        super().__init__(config, **kwargs)
        self.token_loss = kt.LabelSmoothedCrossEntropy(config.label_smoothing)
        self.micro_batches = micro_batches
        self.signal_stop_flag = self.time_stop_flag = 0.0

    def compile_for_training(self, ema: float = 0.0) -> None:
        """Compiles with Adam and the schedule of the config (section 5.3)."""
        config = self.config
        optimizer = self.optimizer_class(
            update_schedule(config),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            average_momentum=ema,
        )
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=False)

    def change_duration(self, config: kt.TransformerConfig) -> None:
        """Gives the next `fit` the schedule of a config of another length."""
        self.config = config
        self.optimizer.learning_rate = update_schedule(config)
        # The schedule's numbers are constants of the compiled step.
        self.train_function = None

    def training_data(
        self, batches: GroupedBatches | PlannedBatches, step: int
    ) -> Iterable:
        """Returns endless batches for `fit`, skipping the first `step` ones.

        Of each global batch, (inputs, labels), see `make_batch`, a replica or
        process gets its rows.
        """
        raise NotImplementedError

    def evaluation_data(self, batches: PlannedBatches) -> typing.Any:
        """Returns the batches of epoch 0 for `evaluate`."""
        raise NotImplementedError

    def fit(  # type: ignore[override]
        self,
        data: Iterable,
        steps_per_epoch: int,
        callbacks: Iterable[keras.callbacks.Callback] = (),
    ) -> None:
        """Trains on so many batches of `training_data`.

        Keras' own `fit` would first reduce a batch over the replicas, which
        fails if shapes differ and on several machines (keras issue 20585).
        """
        callback_list = keras.callbacks.CallbackList([*callbacks], model=self)
        self.stop_training = False
        run_step = self.make_train_function()
        iterator = iter(data)
        callback_list.on_train_begin()
        for step in range(steps_per_epoch):
            callback_list.on_train_batch_begin(step)
            callback_list.on_train_batch_end(step, run_step(iterator))
            if self.stop_training:
                break
        self.sync_variables()
        callback_list.on_train_end()

    def make_train_function(self) -> Callable[[Iterator], dict[str, Tensor]]:
        """Returns a function that trains on the next batch of an iterator.

        It returns the step's logs; later calls return the same function, until
        the schedule changes.
        """
        raise NotImplementedError

    def evaluate(self, data: typing.Any, steps: int) -> dict[str, float]:
        """Returns means over so many batches of `evaluation_data`."""
        raise NotImplementedError

    def sync_variables(self) -> None:
        """Makes the variables those after the latest step of `fit`."""

    def use_average(self) -> None:
        """Replaces the weights by their moving average, if there is one."""
        self.optimizer.use_average()

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Context with the moving average as weights, if there is one."""
        self.sync_variables()
        saved = []
        if self.optimizer.average_momentum:
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

    def loss_sums(
        self,
        labels: Tensor,
        states: Tensor,
        embeddings: Tensor,
        bias: Tensor | None = None,
    ) -> dict[str, Tensor]:
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

    def training_sums(
        self,
        inputs: dict[str, Tensor],
        labels: Tensor,
        embeddings: Tensor,
        bias: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Returns `loss_sums` of a pass with dropout, of two with R-Drop."""
        passes: list[tuple[Tensor, Tensor]] = [
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

    def r_drop_sums(
        self,
        passes: list[tuple[Tensor, Tensor]],
        embeddings: Tensor,
        bias: Tensor | None = None,
    ) -> dict[str, Tensor]:
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


def mean_metrics(sums: dict[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    """Returns the means over target tokens of the sums of `loss_sums`."""
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": ops.exp(sums["perplexity"] / tokens),
        "accuracy": sums["accuracy"] / tokens,
        "tokens": tokens,
    }


def count_tokens(labels: Tensor) -> Tensor:
    """Returns the number of target tokens, a float32 scalar."""
    return ops.sum(ops.cast(labels != PAD_ID, "float32"))
