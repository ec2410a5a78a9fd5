"""Writes an imported model as a model directory."""

from export.common.errors import InputError
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory


def write_model_directory(path, folder, pretrained, **changes):
    """Writes a PretrainedModel, and prints its size and warnings.

    `path` is the new model directory, `folder` the directory that was read, and
    `changes` are values of flags for fields of the configuration.
    """
    try:
        config = pretrained.model.config.replace(**changes)
    except ValueError as error:
        raise InputError(f"--{error}") from error
    source_language, target_language = pretrained.languages
    with atomic_write(path) as temporary:
        temporary.mkdir()
        directory = ModelDirectory(temporary)
        directory.write_vocabulary(pretrained.vocabulary)
        directory.write_run(
            {
                "dataset": f"imported from {folder.resolve().name}",
                "source_language": source_language,
                "target_language": target_language,
            }
        )
        directory.write_weights(pretrained.model)
        directory.write_config(config)
    # Without repetitions: source and target may have the same warning.
    for warning in dict.fromkeys(pretrained.warnings):
        print(f"Warning: {warning}.")
    print(
        f"Wrote {path}: {pretrained.model.count_params():,} parameters, "
        f"{config.num_layers} + {config.decoder_layers} layers, "
        f"{config.vocabulary_size:,} pieces.",
        flush=True,
    )
