"""A training command from its flags to its model, whatever it learns.

A command gives its `Task`: which corpora it takes, what a configuration becomes
once the data are there, and what to say at the end.
"""

import abc
import pathlib

import tensorflow as tf
from absl import flags

from export.common.errors import InputError
from export.common.processes import folder_lock
from export.model_directory import ModelDirectory
from keras_transformer.presets import PRESETS
from trainers import dataset_flags, provenance, settings
from trainers.data import preparation_flags
from trainers.data.manifest import (
    read_manifest,
    validate_kind,
    validate_vocabulary,
)
from trainers.data.preparation import (
    MAX_STORED_TOKENS,
    make_source,
    prepare_corpus,
)
from trainers.data.prepared_corpus import (
    PreparedCorpus,
    validate_symbols,
)
from trainers.training import initial_weights, training_inputs, training_options
from trainers.training.fit import train
from trainers.training.strategies import NAMES as STRATEGIES
from trainers.training.strategies import is_chief, make_strategy, split_cpu

FLAGS = flags.FLAGS
# What adopts this module's flags has these as well.
flags.adopt_module_key_flags(preparation_flags)

flags.DEFINE_string(
    "prepared_dir",
    None,
    "Folder of prepared data, as trainers.prepare makes it; several trainings "
    "may share one. Made first where it is not there yet. Default: data in "
    "the model directory.",
)
flags.DEFINE_string(
    "preset",
    "tiny",
    f"A named TransformerConfig: {', '.join(PRESETS)}. Of text, where "
    "--init_from or --init_layers_from is given and this is not, the "
    "configuration of that model.",
)
flags.DEFINE_multi_string(
    "set",
    [],
    "A field of the configuration, such as --set=dropout=0; the fields: "
    f"{', '.join(settings.FIELDS)}. help(keras_transformer.TransformerConfig) "
    "in Python says what each is.",
)
flags.DEFINE_string(
    "model_dir",
    None,
    "Where the model goes; an unfinished training there is resumed. "
    "Default: runs/PRESET-SOURCE-TARGET.",
)
flags.DEFINE_integer(
    "train_steps", None, "Updates in all; the preset's own by default."
)
flags.DEFINE_integer(
    "batch_tokens",
    None,
    "Positions a side in one update, over all replicas; the preset's own by "
    "default.",
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
    "Split the CPU into so many devices, to try mirrored without GPUs.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "deterministic",
    False,
    "Use operations that give the same bits each time, which may be slower.",
)
flags.DEFINE_bool("score", True, "Decode and score the test split at the end.")
flags.DEFINE_integer(
    "average_checkpoints",
    None,
    "How many of the last checkpoints are averaged into the final weights; "
    "the preset's own by default, 0 for none.",
)

_OWN_FIELDS = ("train_steps", "batch_tokens", "average_checkpoints")


class Task(abc.ABC):
    """What a training command has of its own.

    Attributes:
        command: its name, for the log.
        kind: of the corpora it takes, "text" or "trees".
    """

    command: str
    kind: str

    @abc.abstractmethod
    def check(self, config):
        """Refuses a configuration that this task cannot have.

        Args:
            config: TransformerConfig, as the flags have it.

        Raises:
            InputError: saying what is wrong.
        """

    @abc.abstractmethod
    def finalize_options(self, plan, directory, source):
        """Returns the TrainingPlan with what data and directory decide.

        Args:
            plan: TrainingPlan, as the flags have it.
            directory: ModelDirectory.
            source: Source of the prepared data.

        Raises:
            InputError: a flag is of no use here.
        """

    @abc.abstractmethod
    def symbols_from_directory(self, directory):
        """Returns what a model says trees with.

        Args:
            directory: ModelDirectory, new or not.

        Returns:
            export.parsing.linear.Symbols, or None where it has none.
        """

    @abc.abstractmethod
    def config_from_directory(self, config, directory):
        """Returns the TransformerConfig as far as a directory decides it.

        Args:
            config: TransformerConfig, as the flags have it.
            directory: ModelDirectory, new or not.

        Returns:
            The configuration, or None where only the data can tell.

        Raises:
            InputError: the directory is of a model of another kind.
        """

    @abc.abstractmethod
    def finalize_config(self, config, corpus):
        """Returns the TransformerConfig with what the data decide.

        Args:
            config: TransformerConfig, as the flags have it.
            corpus: PreparedCorpus.
        """

    @abc.abstractmethod
    def score(self, prepared, plan, made):
        """Scores the test split where there is one.

        Args:
            prepared: Prepared.
            plan: TrainingPlan.
            made: dict of command, hardware and date.
        """

    @abc.abstractmethod
    def print_next_steps(self, prepared):
        """Says what a user does next.

        Args:
            prepared: Prepared.
        """


def launch(task):
    """Trains, scores and says what to do next.

    Args:
        task: Task.

    Raises:
        InputError: something given is wrong.
    """
    beginning = initial_weights.asked_for()
    init_from = beginning and beginning.directory
    config = _asked_config(task, beginning)
    task.check(config)
    plan = training_options.plan()
    training_options.validate_final_weights_flags()
    training_inputs.validate_positions(config, plan)
    if FLAGS.logical_cpus > 1:
        split_cpu(FLAGS.logical_cpus)
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    # Before any of TensorFlow's operations: workers must find each other first.
    strategy = make_strategy(FLAGS.strategy)
    if init_from:
        known = task.config_from_directory(config, init_from)
        beginning.validate_config(known or config)
    corpus, directory, plan = _corpus_and_directory(
        task, config, plan, init_from
    )
    if init_from:
        # The model directory may have been begun without it.
        _refuse_other_ids(task, corpus, init_from)
    config = task.finalize_config(config, corpus)
    prepared = training_inputs.prepare(directory, config, corpus, plan)
    made = provenance.describe_run(task.command)
    if not is_chief(strategy):
        train(prepared, plan, strategy, made, beginning)
        return
    with folder_lock(directory.path, "training"):
        training_inputs.write_run_files(directory, config, corpus, plan)
        train(prepared, plan, strategy, made, beginning)
        if FLAGS.score:
            task.score(prepared, plan, made)
    task.print_next_steps(prepared)


def _asked_config(task, beginning):
    """Returns the TransformerConfig of --preset, or of the model there."""
    own = {
        name: FLAGS[name].value
        for name in _OWN_FIELDS
        if FLAGS[name].value is not None
    }
    if beginning is None or FLAGS["preset"].present or task.kind != "text":
        return settings.make_config(FLAGS.preset, FLAGS.set, **own)
    task.config_from_directory(None, beginning.directory)
    return beginning.config(settings.parse_assignments(FLAGS.set) | own)


def _corpus_and_directory(task, config, plan, init_from):
    """Opens the prepared data, and makes them first where needed.

    Returns:
        (PreparedCorpus, ModelDirectory, the plan with all that is left to the
        data and the directory).
    """
    folder = FLAGS.prepared_dir and pathlib.Path(FLAGS.prepared_dir)
    if FLAGS.strategy == "multiworker" and not folder:
        raise InputError(
            "--strategy=multiworker needs --prepared_dir, a folder that all "
            "workers read; make it with python -m trainers.prepare."
        )
    manifest = folder and read_manifest(folder)
    named = FLAGS["dataset"].present
    if FLAGS.strategy == "multiworker" or (manifest and not named):
        corpus = PreparedCorpus(folder)
        validate_kind(folder, corpus.manifest.kind, task.kind)
        _refuse_other_data(folder, corpus.manifest.source)
        directory = _directory(corpus.manifest.source, init_from)
        plan = task.finalize_options(plan, directory, corpus.manifest.source)
        vocabulary, symbols = _given(task, directory, init_from)
        validate_vocabulary(folder, corpus.manifest, vocabulary)
        validate_symbols(folder, corpus.manifest, symbols)
        return corpus, directory, plan
    raw = dataset_flags.corpus()
    validate_kind(raw.name, raw.kind, task.kind)
    stored = max(MAX_STORED_TOKENS, plan.max_tokens)
    normalization = FLAGS.normalization
    if manifest:
        stored = manifest.source.max_tokens
        if not FLAGS["normalization"].present:
            normalization = manifest.source.normalization
    source = make_source(raw, config.source_pieces, stored, normalization)
    directory = _directory(source, init_from)
    plan = task.finalize_options(plan, directory, source)
    # Before hours of work for nothing.
    known = task.config_from_directory(config, directory)
    if known is not None:
        training_inputs.validate_same_training(directory, known, source, plan)
    corpus = prepare_corpus(
        folder or directory.path / "data",
        raw,
        config.source_pieces,
        stored,
        dataset_flags.workers(),
        *_given(task, directory, init_from),
        normalization,
        FLAGS.max_unknown,
    )
    return corpus, directory, plan


def _refuse_other_data(folder, source):
    names = ("dataset", "source_language", "target_language", "normalization")
    for name in names:
        there = getattr(source, name)
        if FLAGS[name].present and FLAGS[name].value != there:
            raise InputError(
                f"--prepared_dir={folder} holds {name}={there}, not "
                f"{FLAGS[name].value}; leave out --{name}, or prepare that "
                "data in another folder."
            )


def _directory(source, init_from):
    kind = FLAGS.preset
    if init_from and not FLAGS["preset"].present:
        kind = f"{init_from.path.resolve().name}-tuned"
    name = f"{kind}-{source.source_language}-{source.target_language}"
    return ModelDirectory(FLAGS.model_dir or f"runs/{name}")


def _given(task, directory, init_from):
    """Returns vocabulary and Symbols that the model has already, or None."""
    there = [each for each in (directory, init_from) if each]
    vocabularies = (
        each.read_vocabulary()
        for each in there
        if each.vocabulary_path.exists()
    )
    symbols = filter(None, map(task.symbols_from_directory, there))
    return next(vocabularies, None), next(symbols, None)


def _refuse_other_ids(task, corpus, model):
    """Refuses data whose ids mean other things than a model's."""
    prepared = corpus.folder, corpus.manifest
    validate_vocabulary(*prepared, model.read_vocabulary())
    validate_symbols(*prepared, task.symbols_from_directory(model))
