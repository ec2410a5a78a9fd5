"""A tiny model with random weights whose answers differ."""

import pathlib

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.translators.translator import Translator
from keras_transformer.parsing.parser_transformer import new_transformer
from tests import made_up_text

ROOT = pathlib.Path(__file__).parents[2]
# Of the export; lets the Translator compile one short shape for long texts.
MAX_SOURCE_TOKENS = 16

CONFIG = {
    "vocabulary_size": 200,
    "num_layers": 1,
    "d_model": 16,
    "d_ff": 32,
    "num_heads": 2,
    "d_k": 8,
    "d_v": 8,
    "norm": "pre",
    "share_embeddings": "none",
    "max_extra_tokens": 5,
    "stop_criterion": "exact",
}


def config(**changes) -> kt.TransformerConfig:
    return kt.TransformerConfig(**{**CONFIG, **changes})


def model(seed=1, **changes) -> kt.Transformer:
    """Fresh weights would answer everything alike; these do not."""
    made = new_transformer(config(**changes))
    generator = np.random.default_rng(seed)
    for weight in made.trainable_variables:
        value = generator.normal(size=weight.shape)
        if weight.name == "gamma":
            value = 1.0 + 0.3 * value
        elif len(weight.shape) == 2 and weight.name != "embeddings":
            value = 6.0 * value * weight.shape[0] ** -0.5
        else:
            value = 0.3 * value
        weight.assign(value.astype("float32"))
    return made


def write(path, **changes) -> None:
    """Writes the model directory."""
    vocabulary, run = made_up_text.vocabulary(), {"dataset": "made up"}
    ModelDirectory(path).write(model(**changes), vocabulary, run)


def translator(path) -> Translator:
    """With small batches."""
    directory = ModelDirectory(path)
    return Translator.from_model(
        directory.load_model(), directory.load_tokenizer(), batch_tokens=64
    )


def refusal_of_large_weights(path) -> str | None:
    """Writes four megabytes; returns the message of the InputError."""
    try:
        ModelDirectory(path).write_weights(model(d_ff=16_000))
    except InputError as error:
        return str(error)
    return None
