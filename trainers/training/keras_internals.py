"""All uses of private parts of Keras in training.

Any release of Keras may change them: test_keras_internals.py detects it, and
pyproject.toml allows only tested releases.
"""

from keras import ops


class SkipSymbolicBuild:
    """Mixin for models whose weights and optimizer are already built.

    Otherwise `fit` would consume the dataset's first elements and reduce them
    over replicas, which fails if shapes differ and on several machines (keras
    issue 20585).
    """

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Does nothing."""


class SharedLearningRate:
    """Mixin for optimizers that compute the rate once for all variables.

    Calls the optimizer's `bias_corrected_rate`. Computing it for each variable
    would take a fifth of the training graph.
    """

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        super()._backend_update_step(
            grads, trainable_variables, self.bias_corrected_rate(learning_rate)
        )


class WarmupAverage:
    """Mixin for optimizers: a moving average with a momentum warmup.

    Update n, from 0, has the momentum min(ema_momentum, n / (n + 9)), nearly
    as `tf.train.ExponentialMovingAverage` with `num_updates`. With Keras'
    constant momentum, the initial weights would dominate the average for
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
    """Returns an iterable of all nested layers, each once."""
    return model._flatten_layers(include_self=False)


def adam_moments(optimizer, variable):
    """Returns a built Adam's momentum and velocity of a tf.Variable."""
    number = optimizer._get_variable_index(variable)
    return optimizer._momentums[number], optimizer._velocities[number]


def transform_seeds(generator, transform):
    """Applies a function to all seeds, integer [2], of a SeedGenerator."""
    draw = generator.next
    generator.next = lambda ordered=True: transform(draw(ordered))
