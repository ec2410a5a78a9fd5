"""The parts of a training for Keras' backend, TensorFlow or JAX."""

import keras

from export.common.errors import InputError
from keras_transformer.parsing.parser_transformer import ParserTransformer
from trainers.training.strategy_base import Strategies

# The models' contract is TrainingBase.
if keras.backend.backend() == "jax":
    from trainers.training import jax_strategies as _strategies
    from trainers.training.jax_training_model import TrainingTransformer
else:
    from trainers.training import strategies as _strategies
    from trainers.training.training_model import TrainingTransformer

strategies: Strategies = _strategies


class TrainingParser(TrainingTransformer, ParserTransformer):
    """A TrainingTransformer with word positions."""


def new_training_model(config, **kwargs):
    """Returns a TrainingTransformer, or a TrainingParser for word positions."""
    if config.uses_word_positions:
        return TrainingParser(config, **kwargs)
    return TrainingTransformer(config, **kwargs)


def validate_options(options):
    """Raises InputError for TrainingOptions that the backend lacks."""
    if keras.backend.backend() == "jax" and options.jit is False:
        raise InputError("JAX compiles every training step: drop --nojit.")
