"""The private parts of Keras that training uses, all in this module.

Any release of Keras may change them: test_keras_internals.py tells which one
did, and pyproject.toml allows no release that it has not seen.
"""

from keras import ops


class SkipSymbolicBuild:
    """Mixin for models whose weights and optimizer are built already.

    `fit` would reduce a first batch over replicas, which fails where their
    shapes differ and on several machines (keras issue 20585), and would use
    up the dataset's first elements.
    """

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing."""


class SharedLearningRate:
    """Mixin for optimizers that compute the rate once for all variables.

    The optimizer's `bias_corrected_rate` does so; for each variable, these
    few scalars would be a fifth of a training graph.
    """

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        super()._backend_update_step(
            grads, trainable_variables, self.bias_corrected_rate(learning_rate)
        )


class WarmupAverage:
    """Mixin for optimizers: a moving average that forgets the first weights.

    Update n, from 0, has the momentum min(ema_momentum, n / (n + 9)), nearly
    that of `tf.train.ExponentialMovingAverage` with `num_updates`. With Keras'
    own constant momentum, the average would be mostly the first weights for
    1 / (1 - ema_momentum) updates.
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
    """Returns an iterable of all layers at any depth, each once."""
    return model._flatten_layers(include_self=False)


def adam_moments(optimizer, variable):
    """Returns the running means of a variable's gradient and its square.

    Args:
        optimizer: keras.optimizers.Adam, built.
        variable: tf.Variable that it updates.
    """
    number = optimizer._get_variable_index(variable)
    return optimizer._momentums[number], optimizer._velocities[number]


def transform_seeds(generator, transform):
    """Applies a function to all seeds, integer [2], of a SeedGenerator."""
    draw = generator.next
    generator.next = lambda ordered=True: transform(draw(ordered))
