"""Initial weights from another model.

`--init_from` (fine-tuning) copies all weights. `--init_layers_from` copies
embeddings and evenly spaced layers of a teacher ("shrink and fine-tune":
Shleifer & Rush 2020, arXiv 2010.13002). Additional layers of a deeper student
start as the identity, with norm=post nearly (Net2DeeperNet: Chen et al. 2016,
arXiv 1511.05641).
"""

import dataclasses
import re

from absl import flags

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from trainers.training import config_flags

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "init_from",
    None,
    "Model directory with the initial weights and the vocabulary of a new "
    "training: fine-tuning.",
)
flags.DEFINE_string(
    "init_layers_from",
    None,
    "Model directory of a teacher of the same widths with other numbers of "
    "layers: a new training starts with its vocabulary, its embeddings and its "
    "layers at even distances.",
)

_NUMBERS = ("num_layers", "num_decoder_layers")
_STACKS = dict(zip(("encoder", "decoder"), _NUMBERS))
_LAYER_WEIGHT = re.compile(r"(encoder|decoder)/layer_(\d+)/(.*)")
_RESIDUAL = re.compile(r"\w+_residual/")
_OUTPUT = re.compile(r"/output_projection/(kernel|bias)$")


def from_flags():
    """Returns the initializer that the flags name; None for random weights.

    Raises:
        InputError: both flags are given.
    """
    if FLAGS.init_from and FLAGS.init_layers_from:
        raise InputError(
            "--init_from and --init_layers_from both give the initial weights; "
            "drop one of them."
        )
    for kind in (ModelInitializer, LayerInitializer):
        if FLAGS[kind.flag].value:
            return kind(ModelDirectory(FLAGS[kind.flag].value))
    return None


class ModelInitializer:
    """Initializes with all weights of the model in a ModelDirectory."""

    flag = "init_from"
    # Fields of the architecture in which the models may differ.
    _may_differ = ()

    def __init__(self, directory):
        self.directory = directory

    @property
    def flag_text(self):
        """The flag and its value."""
        return f"--{self.flag}={self.directory.path}"

    def config(self, changes):
        """Returns the model's TransformerConfig with a dict of changes.

        Raises:
            InputError: there is no config, or a change is out of range.
        """
        try:
            config = self.directory.read_config()
            defaults = dataclasses.asdict(config)
            cooldown = config_flags.scale_cooldown(defaults, changes)
            return config.replace(**changes, **cooldown)
        except ValueError as error:
            raise InputError(str(error)) from error

    def validate_config(self, config):
        """Raises InputError if the weights do not fit a TransformerConfig."""
        source = self.directory.read_config()
        own = config.architecture()
        for name, needed in source.architecture().items():
            if name not in self._may_differ and needed != own[name]:
                needed, value = getattr(source, name), getattr(config, name)
                raise InputError(
                    f"The model of {self.flag_text} has {name}={needed}, not "
                    f"{value}; use --set={name}={needed}."
                )

    def load(self, model):
        """Sets the weights of a TrainingTransformer.

        Raises:
            InputError: the weights do not fit, or are missing.
        """
        self.validate_config(model.config)
        model.set_weights(self.directory.load_model().get_weights())


class LayerInitializer(ModelInitializer):
    """Initializes with embeddings and layers of a teacher."""

    flag = "init_layers_from"
    _may_differ = _NUMBERS

    def load(self, model):
        """Sets the weights and prints which layers of the teacher are used."""
        self.validate_config(model.config)
        teacher = self.directory.load_model()
        origins = teacher_layers(model.config, teacher.config)
        weights = {_path(weight): weight for weight in teacher.weights}
        norm = model.config.norm
        for weight in model.weights:
            path, factor = _origin(_path(weight), origins, norm)
            weight.assign(weights[path].numpy() * factor)
        for stack, numbers in origins.items():
            print(
                f"The {stack} starts with layers of {self.directory.path}: "
                f"{', '.join(map(str, numbers))}.",
                flush=True,
            )


def teacher_layers(student, teacher):
    """Returns the teacher's layer that initializes each student's layer.

    Takes two TransformerConfigs. Returns {"encoder": numbers, "decoder":
    numbers}, from 1: the first, the last and evenly spaced layers; a single
    layer gets the first. A deeper student repeats some.
    """
    own, others = student.architecture(), teacher.architecture()
    return {
        stack: _spaced(own[number], others[number])
        for stack, number in _STACKS.items()
    }


def _spaced(count, layers):
    steps = max(count - 1, 1)
    return [1 + round(n * (layers - 1) / steps) for n in range(count)]


def _path(weight):
    """Returns a weight's path without the model's name."""
    return weight.path.split("/", 1)[1]


def _origin(path, origins, norm):
    """Returns the path of a teacher's weight, and a factor for it."""
    found = _LAYER_WEIGHT.fullmatch(path)
    if not found:
        return path, 1
    stack, number, rest = found.groups()
    *before, origin = origins[stack][: int(number)]
    repeated = origin in before
    if repeated and norm == "post":
        # A copy of the previous layer's last norm hardly changes its output.
        rest = _RESIDUAL.sub("feed_forward_residual/", rest)
    origin = f"{stack}/layer_{origin}/{rest}"
    return origin, 0 if repeated and _OUTPUT.search(rest) else 1
