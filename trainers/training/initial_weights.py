"""Weights of another model, which a new training begins with.

All of them, to go on with the same model (`--init_from`), or the embeddings and
some layers of a deeper or shallower one (`--init_layers_from`): a student
begins with layers of its teacher at even distances, which learns faster than
from nothing ("shrink and fine-tune": Shleifer & Rush 2020, arXiv 2010.13002).
Layers that a deeper one has beside these do nothing at first, or nearly nothing
where each ends with a norm, so that it begins as its teacher does
(Net2DeeperNet: Chen et al. 2016, arXiv 1511.05641).
"""

import dataclasses
import re

from absl import flags

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from trainers import settings

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "init_from",
    None,
    "Model directory whose weights and vocabulary a new training begins with: "
    "fine-tuning.",
)
flags.DEFINE_string(
    "init_layers_from",
    None,
    "Model directory of a teacher, of the same widths with other numbers of "
    "layers, whose vocabulary, embeddings and layers at even distances a new "
    "training begins with.",
)

_NUMBERS = ("num_layers", "num_decoder_layers")
_STACKS = dict(zip(("encoder", "decoder"), _NUMBERS))
_OF_A_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.*)")
_RESIDUAL = re.compile(r"\w+_residual/")
_OUTPUT = re.compile(r"/output_projection/(kernel|bias)$")


def asked_for():
    """Returns what the flags ask to begin with.

    Returns:
        WholeModel or TeacherLayers; None for fresh weights.

    Raises:
        InputError: both are asked for.
    """
    if FLAGS.init_from and FLAGS.init_layers_from:
        raise InputError(
            "--init_from begins with a whole model and --init_layers_from with "
            "layers of one: leave out one of them."
        )
    for kind in (ModelInitializer, LayerInitializer):
        if FLAGS[kind.flag].value:
            return kind(ModelDirectory(FLAGS[kind.flag].value))
    return None


class ModelInitializer:
    """All weights of a model of the same architecture.

    Args:
        directory: ModelDirectory.

    Attributes:
        directory: as given.
    """

    flag = "init_from"
    # What may be another number than there.
    _may_differ = ()

    def __init__(self, directory):
        self.directory = directory

    @property
    def said(self):
        """The flag as it was given."""
        return f"--{self.flag}={self.directory.path}"

    def config(self, changes):
        """Returns its TransformerConfig, changed.

        Args:
            changes: dict of fields.

        Raises:
            InputError: it is missing, or a change is out of range.
        """
        try:
            config = self.directory.read_config()
            defaults = dataclasses.asdict(config)
            shorter = settings.scale_cooldown(defaults, changes)
            return config.replace(**changes, **shorter)
        except ValueError as error:
            raise InputError(str(error)) from error

    def validate_config(self, config):
        """Refuses a configuration that has no place for these weights.

        Args:
            config: TransformerConfig.

        Raises:
            InputError: saying what differs.
        """
        there = self.directory.read_config()
        here = config.architecture()
        for name, needed in there.architecture().items():
            if name not in self._may_differ and needed != here[name]:
                needed, value = getattr(there, name), getattr(config, name)
                raise InputError(
                    f"The model of {self.said} has {name}={needed}, not "
                    f"{value}; use --set={name}={needed}."
                )

    def load(self, model):
        """Sets a model to the weights.

        Args:
            model: TrainingTransformer.

        Raises:
            InputError: as for `validate_config`, or weights are missing.
        """
        self.validate_config(model.config)
        model.set_weights(self.directory.load_model().get_weights())


class LayerInitializer(ModelInitializer):
    """Embeddings and layers of a teacher that has more or fewer layers."""

    flag = "init_layers_from"
    _may_differ = _NUMBERS

    def load(self, model):
        """See the base class; says which layer begins as which."""
        self.validate_config(model.config)
        teacher = self.directory.load_model()
        origins = layer_origins(model.config, teacher.config)
        theirs = {_path(weight): weight for weight in teacher.weights}
        norm = model.config.norm
        for weight in model.weights:
            path, multiple = _origin(_path(weight), origins, norm)
            weight.assign(theirs[path].numpy() * multiple)
        for stack, numbers in origins.items():
            print(
                f"Layers of {self.directory.path} that the {stack}'s begin "
                f"as: {', '.join(map(str, numbers))}.",
                flush=True,
            )


def layer_origins(student, teacher):
    """Returns which of a teacher's layers each of a student's begins as.

    Args:
        student: TransformerConfig.
        teacher: TransformerConfig.

    Returns:
        A dict of "encoder" and "decoder" to a list of the numbers of the
        teacher's layers, from 1, one of each of the student's: the first, the
        last and those at even distances between them; of a student with more
        layers some several times, of which the later ones hand on what the
        first makes; the first alone of one with a single layer.
    """
    ours, theirs = student.architecture(), teacher.architecture()
    return {
        stack: _spaced(ours[number], theirs[number])
        for stack, number in _STACKS.items()
    }


def _spaced(count, layers):
    steps = max(count - 1, 1)
    return [1 + round(n * (layers - 1) / steps) for n in range(count)]


def _path(weight):
    """Returns a weight's path within its model."""
    return weight.path.split("/", 1)[1]


def _origin(path, origins, norm):
    """Returns where a student's weight comes from, and what it is times."""
    found = _OF_A_LAYER.fullmatch(path)
    if not found:
        return path, 1
    stack, number, rest = found.groups()
    *before, origin = origins[stack][: int(number)]
    repeated = origin in before
    if repeated and norm == "post":
        # What the layer before ended with: normalised once more in the same
        # way, its output stays nearly the same.
        rest = _RESIDUAL.sub("feed_forward_residual/", rest)
    origin = f"{stack}/layer_{origin}/{rest}"
    return origin, 0 if repeated and _OUTPUT.search(rest) else 1
