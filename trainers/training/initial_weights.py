"""Initializes a training with weights of another model.

`--init_from` (fine-tuning) copies all weights; `--init_layers_from` copies
embeddings and evenly spaced layers of a teacher ("shrink and fine-tune":
Shleifer & Rush 2020, arXiv 2010.13002). Additional layers of a deeper student
start as the identity, with norm=post nearly (Net2DeeperNet: Chen et al. 2016,
arXiv 1511.05641).
"""

import re
import typing
from collections.abc import Mapping

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from trainers.training import config_flags

# Fields of the configuration with the number of layers of each stack.
_LAYER_FIELDS = {"encoder": "num_layers", "decoder": "num_decoder_layers"}
_LAYER_WEIGHT = re.compile(r"(encoder|decoder)/layer_(\d+)/(.*)")
_RESIDUAL = re.compile(r"\w+_residual/")
_OUTPUT = re.compile(r"/output_projection/(kernel|bias)$")


class ModelInitializer:
    """Initializes with all weights of the model in a ModelDirectory."""

    flag = "init_from"
    # Fields of the architecture in which the models may differ.
    _ignored_fields: tuple[str, ...] = ()

    def __init__(self, directory: ModelDirectory):
        self.directory = directory

    @property
    def flag_text(self) -> str:
        """The flag and its value."""
        return f"--{self.flag}={self.directory.path}"

    def config(self, changes: Mapping[str, typing.Any]) -> kt.TransformerConfig:
        """Returns the model's configuration with changes of fields."""
        return config_flags.change_config(self.directory.read_config(), changes)

    def validate_config(self, config: kt.TransformerConfig) -> None:
        """Raises InputError if the weights do not fit a configuration."""
        initial = self.directory.read_config()
        architecture = config.architecture()
        for name, value in initial.architecture().items():
            if name not in self._ignored_fields and value != architecture[name]:
                expected, other = getattr(initial, name), getattr(config, name)
                # trainers.parsing makes the one field of the other.
                if name == "source_vocabulary_size" and expected and other:
                    name = "vocabulary_size"
                raise InputError(
                    f"The model of {self.flag_text} has {name}={expected}, not "
                    f"{other}; use --set={name}={expected}."
                )

    def load(self, model: kt.Transformer) -> None:
        """Sets the weights of a TrainingTransformer."""
        self.validate_config(model.config)
        model.set_weights(self.directory.load_model().get_weights())


class LayerInitializer(ModelInitializer):
    """Initializes with embeddings and layers of a teacher."""

    flag = "init_layers_from"
    _ignored_fields = tuple(_LAYER_FIELDS.values())

    def load(self, model: kt.Transformer) -> None:
        """Sets the weights and prints which layers of the teacher are used."""
        self.validate_config(model.config)
        teacher = self.directory.load_model()
        layers = select_teacher_layers(model.config, teacher.config)
        weights = {_path_in_model(weight): weight for weight in teacher.weights}
        for weight in model.weights:
            path, factor = _teacher_weight(
                _path_in_model(weight), layers, model.config.norm
            )
            weight.assign(weights[path].numpy() * factor)
        for stack, indices in layers.items():
            print(
                f"The {stack} starts with layers of {self.directory.path}: "
                f"{', '.join(map(str, indices))}.",
                flush=True,
            )


def select_teacher_layers(
    student: kt.TransformerConfig, teacher: kt.TransformerConfig
) -> dict[str, list[int]]:
    """Returns the teacher's layer that initializes each student's layer.

    Returns {"encoder": indices, "decoder": indices}, 1-based, evenly spaced
    from the first layer to the last; a deeper student repeats layers.
    """
    fields, teacher_fields = student.architecture(), teacher.architecture()
    return {
        stack: _evenly_spaced_layers(fields[field], teacher_fields[field])
        for stack, field in _LAYER_FIELDS.items()
    }


def _evenly_spaced_layers(count, num_layers):
    steps = max(count - 1, 1)
    return [1 + round(i * (num_layers - 1) / steps) for i in range(count)]


def _path_in_model(weight):
    """Returns a weight's path without the model's name."""
    return weight.path.split("/", 1)[1]


def _teacher_weight(path, teacher_layers, norm):
    """Returns the path of a teacher's weight, and a factor for it."""
    match = _LAYER_WEIGHT.fullmatch(path)
    if not match:
        return path, 1
    stack, student_layer, name = match.groups()
    *before, layer = teacher_layers[stack][: int(student_layer)]
    is_repeated = layer in before
    if is_repeated and norm == "post":
        # A copy of the previous layer's last norm hardly changes its output.
        name = _RESIDUAL.sub("feed_forward_residual/", name)
    factor = 0 if is_repeated and _OUTPUT.search(name) else 1
    return f"{stack}/layer_{layer}/{name}", factor
