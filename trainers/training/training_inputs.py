"""Loads and validates the data, run files and initial weights of a training.

`--init_from` (fine-tuning) copies all weights of another model;
`--init_layers_from` copies embeddings and evenly spaced layers of a teacher
("shrink and fine-tune": Shleifer & Rush 2020, arXiv 2010.13002). Additional
layers of a deeper student start as the identity, with norm=post nearly
(Net2DeeperNet: Chen et al. 2016, arXiv 1511.05641).
"""

import dataclasses
import re

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.config import field_names
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet, describe_fingerprint_change
from trainers.scores import bleu_tokenizers
from trainers.training import config_flags

_DEV_FLAGS = ("keep_best", "patience", "dev_bleu_sentences", "dev_f1_sentences")
# Fields of the configuration with the number of layers of each stack.
_LAYER_FIELDS = {"encoder": "num_layers", "decoder": "num_decoder_layers"}
_LAYER_WEIGHT = re.compile(r"(encoder|decoder)/layer_(\d+)/(.*)")
_RESIDUAL = re.compile(r"\w+_residual/")
_OUTPUT = re.compile(r"/output_projection/(kernel|bias)$")


@dataclasses.dataclass(frozen=True)
class TrainingInputs:
    """Inputs of a training; dev and test are None if missing."""

    directory: ModelDirectory
    config: kt.TransformerConfig
    dataset: str
    training: TokenPairs
    dev: TokenPairs | None
    test: EvaluationSet | None


def load_inputs(directory, config, corpus, options):
    """Returns validated TrainingInputs, without writing anything.

    Raises:
        InputError: the directory is of another training, or the data are
            damaged or do not fit the configuration.
    """
    source = corpus.manifest.source
    validate_same_training(directory, config, source, options)
    if source.vocabulary_size != config.encoder_vocabulary_size:
        raise InputError(
            f"The data in {corpus.folder} were prepared with "
            f"vocabulary_size={source.vocabulary_size}, not "
            f"{config.encoder_vocabulary_size}; use "
            f"--set=vocabulary_size={source.vocabulary_size}."
        )
    corpus.check()
    limits = {
        "--max_tokens": options.max_tokens,
        "--batch_tokens": config.batch_tokens,
    }
    training = _load_pairs(corpus, "train", limits)
    if training is None:
        raise InputError(
            f"{corpus.folder} has no train split; prepare data that have one."
        )
    dev = _load_pairs(corpus, "dev", limits)
    for name in _DEV_FLAGS:
        if dev is None and getattr(options, name):
            raise InputError(
                f"{corpus.folder} has no dev split, which --{name} needs; "
                "drop the flag, or add a dev split."
            )
    test = corpus.test_set()
    return TrainingInputs(
        directory, config, source.dataset, training, dev, test
    )


def choose_tokenizer(options, directory, language):
    """Returns the TrainingOptions with a tokenizer for sacreBLEU.

    `language` is the code of the target language.
    """
    # A resumed training keeps its tokenizer: BLEU of its runs is comparable.
    name = options.tokenize
    if name is None and directory.config_path.exists():
        name = directory.read_run().get("tokenize")
    name = bleu_tokenizers.choose_tokenizer(language, name)
    return dataclasses.replace(options, tokenize=name)


def write_run_files(directory, config, corpus, options):
    """Writes config.json, run.json, vocabulary and symbols."""
    source = corpus.manifest.source
    # Again, since another training may have begun in the meantime.
    validate_same_training(directory, config, source, options)
    directory.write_vocabulary(corpus.vocabulary)
    if corpus.symbols is not None:
        directory.write_symbols(corpus.symbols.to_json())
    directory.write_run(_run_facts(source, options))
    # Last, because config.json marks the directory as used by a training.
    directory.write_config(config)


def validate_positions(config, options):
    """Raises InputError if --max_tokens exceeds learned positions."""
    learned = config.positions == "learned"
    if learned and options.max_tokens > config.max_positions:
        raise InputError(
            f"Expected --max_tokens of at most max_positions="
            f"{config.max_positions} with positions=learned, got "
            f"{options.max_tokens}; lower the one or raise the other."
        )


def validate_same_training(directory, config, source, options):
    """Raises InputError if a ModelDirectory holds another training."""
    if not directory.config_path.exists():
        return
    old = dataclasses.asdict(directory.read_config()) | directory.read_run()
    new = dataclasses.asdict(config) | _run_facts(source, options)
    may_change = field_names("duration", "decoding")
    for name, value in new.items():
        if name in may_change or old.get(name) == value:
            continue
        if name == "fingerprint":
            change = describe_fingerprint_change(str(old.get(name)), value)
            raise InputError(
                f"The data of the training in {directory.path} changed since "
                f"it began: {change}; restore them, or use another --model_dir."
            )
        raise InputError(
            f"{directory.path} holds a training with {name}={old.get(name)}, "
            f"not {value}; use another --model_dir, or the same flags."
        )


def _run_facts(source, options):
    """Returns run.json: values that a resumed training must not change."""
    # Options that change only an update's bits (precision, jit, accumulate,
    # strategy) are in training.json.
    return {
        "dataset": source.dataset,
        "source_language": source.source_language,
        "target_language": source.target_language,
        "fingerprint": source.fingerprint,
        "seed": options.seed,
        # The lower limit decides which pairs are missing.
        "max_tokens": min(options.max_tokens, source.max_tokens),
        "batching": options.batching,
        "shapes": options.shapes,
        "row_tokens": options.row_tokens,
        "ema": options.ema,
        "tokenize": options.tokenize,
    }


def _load_pairs(corpus, split, limits):
    pairs = corpus.pairs(split)
    if pairs is None:
        return None
    flag, max_tokens = min(limits.items(), key=lambda limit: limit[1])
    pairs = pairs.filter_by_length(max_tokens)
    manifest = corpus.manifest
    too_long = (
        (manifest.splits[split].num_too_long, manifest.source.max_tokens),
        (pairs.dropped, max_tokens),
    )
    skipped = "".join(
        f", {count:,} pairs of more than {limit:,} skipped"
        for count, limit in too_long
        if count
    )
    print(
        f"{split}: {len(pairs):,} pairs, {pairs.target_lengths.sum():,} target "
        f"tokens{skipped}.",
        flush=True,
    )
    if not len(pairs):
        raise InputError(
            f"No sentence pair of {split} has at most {flag}={max_tokens} "
            "tokens on each side; raise it, or check the data."
        )
    return pairs


class ModelInitializer:
    """Initializes with all weights of the model in a ModelDirectory."""

    flag = "init_from"
    # Fields of the architecture in which the models may differ.
    _ignored_fields = ()

    def __init__(self, directory):
        self.directory = directory

    @property
    def flag_text(self):
        """The flag and its value."""
        return f"--{self.flag}={self.directory.path}"

    def config(self, changes):
        """Returns the model's TransformerConfig with a dict of changes."""
        try:
            config = self.directory.read_config()
            defaults = dataclasses.asdict(config)
            cooldown = config_flags.scale_cooldown(defaults, changes)
            return config.replace(**changes, **cooldown)
        except ValueError as error:
            raise InputError(str(error)) from error

    def validate_config(self, config):
        """Raises InputError if the weights do not fit a TransformerConfig."""
        initial = self.directory.read_config()
        architecture = config.architecture()
        for name, value in initial.architecture().items():
            if name not in self._ignored_fields and value != architecture[name]:
                expected = getattr(initial, name)
                raise InputError(
                    f"The model of {self.flag_text} has {name}={expected}, not "
                    f"{getattr(config, name)}; use --set={name}={expected}."
                )

    def load(self, model):
        """Sets the weights of a TrainingTransformer."""
        self.validate_config(model.config)
        model.set_weights(self.directory.load_model().get_weights())


class LayerInitializer(ModelInitializer):
    """Initializes with embeddings and layers of a teacher."""

    flag = "init_layers_from"
    _ignored_fields = tuple(_LAYER_FIELDS.values())

    def load(self, model):
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


def select_teacher_layers(student, teacher):
    """Returns the teacher's layer that initializes each student's layer.

    Takes two TransformerConfigs. Returns {"encoder": indices, "decoder":
    indices}, 1-based, evenly spaced from the first layer to the last; a deeper
    student repeats layers.
    """
    student, teacher = student.architecture(), teacher.architecture()
    return {
        stack: _evenly_spaced_layers(student[field], teacher[field])
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
