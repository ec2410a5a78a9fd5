"""Initial weights from another model.

All weights of the same architecture (`--init_from`, fine-tuning), or the
embeddings and some layers of a deeper or shallower model
(`--init_layers_from`): a student starts with layers of its teacher at even
distances ("shrink and fine-tune": Shleifer & Rush 2020, arXiv 2010.13002).
Additional layers of a deeper student are initialised to do nothing, or nearly
nothing with norm=post, so that it starts as its teacher (Net2DeeperNet: Chen
et al. 2016, arXiv 1511.05641).
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
        InputError: two are named.
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
    """All weights of the model in a ModelDirectory."""

    flag = "init_from"
    # Fields of the architecture that may differ.
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
            InputError: it is missing, or a change is out of range.
        """
        try:
            config = self.directory.read_config()
            defaults = dataclasses.asdict(config)
            cooldown = config_flags.scale_cooldown(defaults, changes)
            return config.replace(**changes, **cooldown)
        except ValueError as error:
            raise InputError(str(error)) from error

    def validate_config(self, config):
        """Raises InputError if these weights do not fit a TransformerConfig."""
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
            InputError: they do not fit, or are missing.
        """
        self.validate_config(model.config)
        model.set_weights(self.directory.load_model().get_weights())


class LayerInitializer(ModelInitializer):
    """Embeddings and layers of a teacher with more or fewer layers."""

    flag = "init_layers_from"
    _may_differ = _NUMBERS

    def load(self, model):
        """As the base class; prints the teacher's layers that are used."""
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
    """Returns the teacher's layer from which each student's layer starts.

    Args:
        student: TransformerConfig.
        teacher: TransformerConfig.

    Returns:
        {"encoder": numbers, "decoder": numbers}: for each of the student's
        layers one of the teacher's, from 1: first, last and those at even
        distances; with one layer the first. A deeper student repeats some.
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
    """Returns the teacher's weight for a student's, and a factor."""
    found = _LAYER_WEIGHT.fullmatch(path)
    if not found:
        return path, 1
    stack, number, rest = found.groups()
    *before, origin = origins[stack][: int(number)]
    repeated = origin in before
    if repeated and norm == "post":
        # The last norm of the layer before: normalised once more in the same
        # way, its output stays nearly the same.
        rest = _RESIDUAL.sub("feed_forward_residual/", rest)
    origin = f"{stack}/layer_{origin}/{rest}"
    return origin, 0 if repeated and _OUTPUT.search(rest) else 1
