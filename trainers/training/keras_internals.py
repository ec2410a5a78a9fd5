"""The private parts of Keras that training needs, and nothing else does.

Any release of Keras may change them. test_keras_private.py says which one did,
and pyproject.toml allows none that it has not seen.
"""

from keras import ops


class SkipSymbolicBuild:
    """A mixin for models whose weights and optimizer are built already.

    `fit` would reduce a first batch over replicas, which fails where their
    shapes differ and on several machines (keras issue 20585), and would use
    up the dataset's first elements.
    """

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing."""


class SharedLearningRate:
    """A mixin for optimizers: one rate for all variables of an update.

    `bias_corrected_rate` makes it, once an update; for each
    variable, the same few scalars would be a fifth of a training graph.
    """

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        super()._backend_update_step(
            grads, trainable_variables, self.bias_corrected_rate(learning_rate)
        )


class WarmupAverage:
    """A mixin for optimizers: a moving average that forgets the beginning.

    Update n, from 0, has the momentum min(ema_momentum, n / (n + 9)), nearly
    that of `tf.train.ExponentialMovingAverage` with `num_updates`. Keras' own,
    the same from the first update on, would be nothing but the first weights
    for 1 / (1 - ema_momentum) updates.
    """

    def _update_model_variables_moving_average(self, trainable_variables):
        if self.use_ema:
            updates = ops.cast(self.iterations, "float32")
            momentum = ops.minimum(updates / (updates + 9.0), self.ema_momentum)
            for variable, average in zip(
                trainable_variables, self._model_variables_moving_average
            ):
                change = ops.subtract(variable, average)
                average.assign(average + (1.0 - momentum) * change)


def all_layers(model):
    """Returns an iterable of a model's layers, at any depth, once each."""
    return model._flatten_layers(include_self=False)


def adam_moments(optimizer, variable):
    """Returns what Adam has stored of a variable's gradients.

    Args:
        optimizer: keras.optimizers.Adam, built.
        variable: tf.Variable that it updates.

    Returns:
        Two keras.Variable of the variable's shape: the running means of the
        gradient and of its square.
    """
    number = optimizer._get_variable_index(variable)
    return optimizer._momentums[number], optimizer._velocities[number]


def transform_seeds(generator, change):
    """Makes a generator give other seeds from now on.

    Args:
        generator: keras.random.SeedGenerator.
        change: function of the seed that Keras would give, an integer [2],
            that returns the one to give.
    """
    draw = generator.next
    generator.next = lambda ordered=True: change(draw(ordered))
