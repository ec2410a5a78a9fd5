"""Begins a training with the weights of another: fine-tuning."""

import dataclasses

from export.command import InputError

# What may differ between two models of the same weights.
_TRAINING_FIELDS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "label_smoothing",
    "r_drop",
    "batch_tokens",
    "train_steps",
    "warmup_steps",
    "cooldown_steps",
    "learning_rate_scale",
    "adam_beta_1",
    "adam_beta_2",
    "adam_epsilon",
    "clip_norm",
    "average_checkpoints",
    "beam_size",
    "alpha",
    "length_penalty",
    "max_output_extra",
)


def load_initial_weights(model, directory):
    """Sets a model to the weights of a model directory.

    Args:
        model: TrainingTransformer.
        directory: ModelDirectory.

    Raises:
        InputError: its model is another one, or its weights are missing.
    """
    refuse_other_model(model.config, directory)
    model.set_weights(directory.load_model().get_weights())


def refuse_other_model(config, directory):
    """Refuses a model directory whose weights another configuration needs.

    Args:
        config: TransformerConfig.
        directory: ModelDirectory.

    Raises:
        InputError: saying what differs.
    """
    there = dataclasses.asdict(directory.read_config())
    for name, value in dataclasses.asdict(config).items():
        if name not in _TRAINING_FIELDS and there[name] != value:
            raise InputError(
                f"The model of --init_from={directory.path} has "
                f"{name}={there[name]}, not {value}; use "
                f"--set={name}={there[name]}."
            )
