"""The parts of a training for Keras' backend, TensorFlow or JAX."""

import typing

import keras

import keras_transformer as kt
from export.common.errors import InputError
from keras_transformer.parsing.parser_transformer import ParserTransformer
from trainers.training.strategy_base import Strategies
from trainers.training.training_base import TrainingBase

if typing.TYPE_CHECKING:
    from trainers.training.training_options import TrainingOptions

# The models' contract is TrainingBase.
strategies: Strategies
if keras.backend.backend() == "jax":
    from trainers.training import jax_strategies
    from trainers.training.jax_training_model import TrainingTransformer

    strategies = jax_strategies
else:
    from trainers.training import strategies as tf_strategies
    from trainers.training.training_model import TrainingTransformer

    strategies = tf_strategies


class TrainingParser(TrainingTransformer, ParserTransformer):
    """A TrainingTransformer with word positions."""


def new_training_model(
    config: kt.TransformerConfig, **kwargs: typing.Any
) -> TrainingBase:
    """Returns a TrainingTransformer, or a TrainingParser for word positions."""
    if config.uses_word_positions:
        return TrainingParser(config, **kwargs)
    return TrainingTransformer(config, **kwargs)


def validate_options(options: "TrainingOptions") -> None:
    """Raises InputError for TrainingOptions that the backend lacks."""
    if keras.backend.backend() == "jax" and options.jit is False:
        raise InputError("JAX compiles every training step: drop --nojit.")
