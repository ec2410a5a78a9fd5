"""Runs a training command, from flags to a trained model.

Commands differ in their `Task`: corpus, data-dependent options, and scores.
"""

import abc
import pathlib
import typing

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import folder_lock
from export.model_directory import ModelDirectory
from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from trainers.data import dataset_flags, validate_kind
from trainers.data.manifest import DataSource, read_manifest
from trainers.data.preparation import (
    MAX_STORED_TOKENS,
    make_data_source,
    prepare_corpus,
)
from trainers.data.prepared_corpus import PreparedCorpus, validate_codec
from trainers.scores.score_records import describe_run
from trainers.training import config_flags, training_inputs, training_options
from trainers.training.backend import strategies, validate_options
from trainers.training.fit import train
from trainers.training.initial_weights import LayerInitializer, ModelInitializer
from trainers.training.strategy_base import STRATEGIES
from trainers.training.time_budget import without_end

if typing.TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary

FLAGS = flags.FLAGS
dataset_flags.define_preparation_flags()

flags.DEFINE_string(
    "prepared_dir",
    None,
    "Folder of prepared data, as trainers.prepare writes it, which several "
    "trainings may share; created if it is missing. Default: data in the model "
    "directory.",
)
flags.DEFINE_string(
    "preset",
    "tiny",
    f"A named TransformerConfig: {', '.join(PRESETS)}. With text and "
    "--init_from or --init_layers_from, by default that model's.",
)
flags.DEFINE_multi_string(
    "set",
    [],
    "A field of the configuration, such as --set=dropout=0; "
    "help(keras_transformer.TransformerConfig) in Python explains them: "
    f"{', '.join(config_flags.FIELD_NAMES)}.",
)
flags.DEFINE_string(
    "model_dir",
    None,
    "Folder of the model; an unfinished training in it is resumed. Default: "
    "runs/PRESET-SOURCE-TARGET.",
)
flags.DEFINE_integer(
    "train_steps", None, "Total updates; by default as the preset says."
)
flags.DEFINE_integer(
    "batch_tokens",
    None,
    "Positions per side in an update, over all replicas; by default as the "
    "preset says.",
)
flags.DEFINE_enum(
    "strategy",
    "auto",
    STRATEGIES,
    "Devices: one; mirrored for all GPUs; multiworker for the machines that "
    "TF_CONFIG names; auto for mirrored where there are several GPUs.",
)
flags.DEFINE_integer(
    "logical_cpus",
    1,
    "Number of devices to split the CPU into, to test mirrored without GPUs.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "deterministic",
    False,
    "Use operations with reproducible bits, which may be slower.",
)
flags.DEFINE_bool(
    "score", True, "Translate and score the test split at the end."
)
flags.DEFINE_integer(
    "average_checkpoints",
    None,
    "Number of last checkpoints averaged into the final weights; 0 for none; "
    "by default as the preset says.",
)
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


class Task(abc.ABC):
    """The steps in which training commands differ."""

    command: str
    corpus_kind: str  # "text" or "trees".

    @abc.abstractmethod
    def validate_flags(self, config: TransformerConfig) -> None:
        """Raises InputError if flags or config do not suit the task."""

    @abc.abstractmethod
    def finalize_options(
        self,
        options: training_options.TrainingOptions,
        directory: ModelDirectory,
        source: DataSource,
    ) -> training_options.TrainingOptions:
        """Returns TrainingOptions that suit the DataSource."""

    @abc.abstractmethod
    def read_symbols(
        self, directory: ModelDirectory
    ) -> "SymbolVocabulary | None":
        """Returns the SymbolVocabulary of a ModelDirectory, or None.

        InputError if the directory holds a model of another task.
        """

    def finalize_config(
        self,
        config: TransformerConfig,
        vocabulary: bytes | None,
        symbols: "SymbolVocabulary | None",
    ) -> TransformerConfig:
        """Returns the config with the vocabulary sizes, where known."""
        return config

    @abc.abstractmethod
    def score(
        self,
        inputs: training_inputs.TrainingInputs,
        options: training_options.TrainingOptions,
        run_info: dict[str, str],
    ) -> None:
        """Scores the test split."""

    @abc.abstractmethod
    def next_command(self, path: pathlib.Path) -> str:
        """Returns a command to run with the trained model of a folder."""


def launch(task: Task) -> None:
    """Trains, scores and prints commands to run next."""
    initializer = _initializer_from_flags()
    config = _config_from_flags(task, initializer)
    task.validate_flags(config)
    options = training_options.TrainingOptions.from_flags()
    validate_options(options)
    training_inputs.validate_positions(config, options)
    if FLAGS.logical_cpus > 1:
        if FLAGS.strategy in ("auto", "one"):
            raise InputError(
                f"--logical_cpus={FLAGS.logical_cpus} has no effect with "
                f"--strategy={FLAGS.strategy}; add --strategy=mirrored."
            )
        strategies.split_cpu(FLAGS.logical_cpus)
    if FLAGS.deterministic:
        strategies.make_operations_deterministic()
    # Before any operation, since it connects the workers.
    strategy = strategies.make_strategy(FLAGS.strategy)
    with strategies.report_lost_workers(strategy):
        _train_and_score(task, config, options, initializer, strategy)


def _train_and_score(task, config, options, initializer, strategy):
    init_directory = initializer and initializer.directory
    if initializer:
        codec = _read_codec(task, init_directory)
        initializer.validate_config(task.finalize_config(config, *codec))
    corpus, directory, options = _open_data(
        task, config, options, init_directory
    )
    config = task.finalize_config(config, corpus.vocabulary, corpus.symbols)
    inputs = training_inputs.load_inputs(directory, config, corpus, options)
    run_info = describe_run(task.command)
    if not strategies.is_chief(strategy):
        train(inputs, options, strategy, run_info, initializer)
        return
    with folder_lock(directory.path, "training"):
        training_inputs.write_run_files(directory, config, corpus, options)
        train(inputs, options, strategy, run_info, initializer)
        if FLAGS.score and inputs.test is None:
            print("The data set has no test split, so there is no score.")
        elif FLAGS.score:
            task.score(inputs, options, run_info)
    command.print_next(
        command.command_line("tensorboard", "--logdir", directory.logs_path),
        task.next_command(directory.path),
    )


def _initializer_from_flags():
    if FLAGS.init_from and FLAGS.init_layers_from:
        raise InputError(
            "--init_from and --init_layers_from exclude each other; drop one."
        )
    if FLAGS.init_from:
        return ModelInitializer(ModelDirectory(FLAGS.init_from))
    if FLAGS.init_layers_from:
        return LayerInitializer(ModelDirectory(FLAGS.init_layers_from))
    return None


def _config_from_flags(task, initializer):
    """Returns the TransformerConfig of --preset, or of the initial model."""
    overrides = {
        name: FLAGS[name].value
        for name in ("train_steps", "batch_tokens", "average_checkpoints")
        if FLAGS[name].value is not None
    }
    uses_preset = FLAGS["preset"].present or task.corpus_kind != "text"
    changes = config_flags.parse_assignments(FLAGS.set) | overrides
    if initializer is None or uses_preset:
        config = config_flags.make_config(FLAGS.preset, FLAGS.set, **overrides)
    else:
        config = initializer.config(changes)
    if FLAGS.train_minutes and "train_steps" not in changes:
        config = without_end(config, "cooldown_steps" not in changes)
    return config


def _open_data(task, config, options, init_directory):
    """Opens or prepares the data; returns corpus, directory and options."""
    folder = FLAGS.prepared_dir and pathlib.Path(FLAGS.prepared_dir)
    is_multiworker = FLAGS.strategy == "multiworker"
    if is_multiworker and not folder:
        raise InputError(
            "--strategy=multiworker needs --prepared_dir, a folder that all "
            "workers read; make it with python -m trainers.prepare."
        )
    manifest = folder and read_manifest(folder)
    is_prepared = is_multiworker or (manifest and not FLAGS["dataset"].present)
    if is_prepared:
        corpus = PreparedCorpus(folder)
        source = corpus.manifest.source
        directory = _model_directory(source, init_directory)
        validate_kind(folder, corpus.manifest.kind, task.corpus_kind)
        _validate_data_flags(folder, source)
    else:
        raw_corpus = dataset_flags.corpus(task.corpus_kind)
        directory = _model_directory(raw_corpus, init_directory)
        source = _source_from_flags(
            raw_corpus, manifest, directory, config, options
        )
    options = task.finalize_options(options, directory, source)
    codecs = [
        _read_codec(task, each) for each in (directory, init_directory) if each
    ]
    vocabulary, symbols = (next(filter(None, e), None) for e in zip(*codecs))
    # Before preparing the data, which may take hours.
    training_inputs.validate_same_training(
        directory,
        task.finalize_config(config, vocabulary, symbols),
        source,
        options,
    )
    if not is_prepared:
        corpus = prepare_corpus(
            folder or directory.path / "data",
            raw_corpus,
            source,
            dataset_flags.thread_map(),
            vocabulary,
            symbols,
            FLAGS.max_unknown,
        )
    # A resumed training may have started without the initial model.
    for codec in codecs:
        validate_codec(corpus.folder, corpus.manifest, *codec)
    return corpus, directory, options


def _source_from_flags(corpus, manifest, directory, config, options):
    """Returns the DataSource of a Corpus, by default like the prepared one."""
    max_tokens = max(MAX_STORED_TOKENS, options.max_tokens)
    choices = dataset_flags.preparation_choices(
        corpus, manifest.source if manifest else None
    )
    if manifest:
        max_tokens = manifest.source.max_tokens
    elif directory.config_path.exists():
        # Those of older trainings.
        for name in ("copy_rate", "noise"):
            if not FLAGS[name].present:
                default = getattr(DataSource, name)
                choices[name] = directory.read_run().get(name, default)
    return make_data_source(
        corpus, config.encoder_vocabulary_size, max_tokens, **choices
    )


def _validate_data_flags(folder, source):
    names = (
        "dataset",
        "source_language",
        "target_language",
        *dataset_flags.PREPARATION_CHOICES,
    )
    for name in names:
        value = getattr(source, name)
        if FLAGS[name].present and FLAGS[name].value != value:
            raise InputError(
                f"--prepared_dir={folder} holds {name}={value}, not "
                f"{FLAGS[name].value}; drop --{name}, or prepare that data in "
                "another folder."
            )


def _model_directory(source, init_directory):
    """Returns the ModelDirectory for a DataSource, or for a Corpus."""
    model = FLAGS.preset
    if init_directory and not FLAGS["preset"].present:
        model = f"{init_directory.path.resolve().name}-tuned"
    languages = f"{source.source_language}-{source.target_language}"
    return ModelDirectory(FLAGS.model_dir or f"runs/{model}-{languages}")


def _read_codec(task, directory):
    """Returns vocabulary and symbols of a directory, None if it is new."""
    symbols, vocabulary = task.read_symbols(directory), None
    if directory.config_path.exists() or directory.vocabulary_path.exists():
        vocabulary = directory.read_vocabulary()
    return vocabulary, symbols
