"""Several model directories as one model."""

import keras_transformer as kt
from export.errors import InputError
from export.model_directory import ModelDirectory


def load_ensemble(paths, mean=None):
    """Loads models that decode together.

    Args:
        paths: of the model directories, two or more.
        mean: of kt.Ensemble; None for its default.

    Returns:
        kt.Ensemble and Tokenizer.

    Raises:
        InputError: one is not a whole model directory, or they do not go
            together.
    """
    if len(paths) < 2:
        raise InputError(
            "--ensemble_mean is of several models; give --model again for "
            "each of them, or leave it out."
        )
    directories = [ModelDirectory(path) for path in paths]
    tokenizers = [directory.load_tokenizer() for directory in directories]
    for path, tokenizer in zip(paths, tokenizers):
        if tokenizer.proto != tokenizers[0].proto:
            raise InputError(
                f"{paths[0]} and {path} have different vocabularies; only "
                "models of one vocabulary decode together."
            )
    models = [directory.load_model() for directory in directories]
    try:
        ensemble = kt.Ensemble(models, **({"mean": mean} if mean else {}))
    except ValueError as error:
        raise InputError(str(error)) from error
    return ensemble, tokenizers[0]
