"""Describes an export."""

import datetime
import hashlib
import importlib.metadata
import json

import tensorflow as tf

import keras_transformer as kt
from export.server_runtime.session import read_meta_graph, signatures_of
from keras_transformer.presets import PRESETS

_PACKAGES = ("keras", "tensorflow", "tensorflow-text")
# They follow from the text, or from the trees, not from the preset.
_TEXT_FIELDS = (
    *("vocabulary_size", "source_vocabulary_size"),
    *("source_words_from", "target_words_from"),
)


def describe(directory, servable):
    """Returns an export's description without its signatures, a dict.

    Args:
        directory: ModelDirectory.
        servable: ServedTranslator or ServedParser made of it.

    Raises:
        InputError: a file of the directory is not valid.
    """
    run = directory.read_run() if directory.run_path.exists() else {}
    config = directory.read_config()
    return {
        "source_language": run.get("source_language"),
        "target_language": run.get("target_language"),
        "dataset": run.get("dataset"),
        "preset": preset_of(config),
        "configuration": json.loads(config.to_json()),
        "parameters": servable.parameters,
        "vocabulary": {
            "size": config.source_pieces,
            "sha256": hashlib.sha256(directory.read_vocabulary()).hexdigest(),
        },
        "scores": directory.read_scores(),
        "limits": servable.limits(),
        "versions": {
            "keras_transformer": kt.__version__,
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
        "date": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
    }


def preset_of(config):
    """Returns the name of the preset whose architecture this is, or None."""
    for name in PRESETS:
        preset = kt.TransformerConfig.preset(name)
        if _architecture(preset) == _architecture(config):
            return name
    return None


def _architecture(config):
    fields = config.architecture()
    for name in _TEXT_FIELDS:
        del fields[name]
    # Sinusoidal positions have no maximum.
    if config.positions == "sinusoidal":
        del fields["max_positions"]
    return fields


def describe_signatures(version):
    """Returns a dict of the inputs and outputs of each signature.

    Read from what was saved: tf.function would trace each once more.

    Args:
        version: pathlib.Path of the version's folder.
    """
    return {
        name: {
            "inputs": _tensors(signature.inputs),
            "outputs": _tensors(signature.outputs),
        }
        for name, signature in signatures_of(read_meta_graph(version)).items()
    }


def _tensors(infos):
    return {
        name: {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": tf.TensorShape(info.tensor_shape).as_list(),
        }
        for name, info in sorted(infos.items())
    }
