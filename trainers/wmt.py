"""Trains a translation model: `python -m trainers.wmt`."""

from absl import flags

from export import command
from export.errors import InputError
from export.model_directory import ModelDirectory
from trainers import closing, settings
from trainers.corpora import open_corpus
from trainers.preparation import prepare
from trainers.strategies import NAMES as STRATEGIES
from trainers.strategies import split_cpu
from trainers.training import train
from trainers.training_plan import TrainingPlan

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "dataset",
    "tatoeba-en-fr",
    "What to train on: tatoeba-en-fr (fetched from the package index), "
    "text:PREFIX (files PREFIX.train.en, PREFIX.train.de and so on, .gz too), "
    "or a translation set of TensorFlow Datasets such as "
    "wmt14_translate/de-en.",
)
flags.DEFINE_string(
    "source_language", None, "Language to translate from, such as en."
)
flags.DEFINE_string(
    "target_language", None, "Language to translate into, such as de."
)
flags.DEFINE_string("data_dir", None, "Where TensorFlow Datasets keeps data.")
flags.DEFINE_string(
    "manual_dir", None, "Where files for TensorFlow Datasets lie."
)
flags.DEFINE_string("preset", "tiny", "A named TransformerConfig.")
flags.DEFINE_multi_string(
    "set", [], "A field of the configuration, such as --set=dropout=0."
)
flags.DEFINE_string(
    "model_dir",
    None,
    "Where the model goes; an unfinished training there goes on. "
    "Default: runs/PRESET-SOURCE-TARGET.",
)
flags.DEFINE_integer(
    "train_steps", None, "Updates in all; the preset's own by default."
)
flags.DEFINE_float(
    "train_minutes",
    0.0,
    "Stop so many minutes after training began; 0 is no limit.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "batch_tokens",
    None,
    "Positions a side in one update, over all replicas; the preset's own by "
    "default.",
)
flags.DEFINE_integer(
    "max_tokens", 256, "Pairs with a longer side are left out, in pieces."
)
flags.DEFINE_integer(
    "shapes",
    8,
    "How many padded lengths batches may have: more make less padding, and "
    "each is compiled once.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "strategy",
    "auto",
    STRATEGIES,
    "Devices: one; mirrored for all GPUs; auto for mirrored where there are "
    "several.",
)
flags.DEFINE_integer(
    "logical_cpus",
    1,
    "Split the CPU into so many devices, to try mirrored without GPUs.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "Of activations and products; weights, norms, softmax and loss are "
    "float32 in both.",
)
flags.DEFINE_bool(
    "jit", True, "Compile loss and gradient with XLA, once for each shape."
)
flags.DEFINE_integer(
    "seed",
    1,
    "Of weights, dropout and the data's order.",
    lower_bound=0,
    upper_bound=2**32 - 1,
)
flags.DEFINE_integer(
    "report_steps", 100, "Updates between reports.", lower_bound=1
)
flags.DEFINE_integer(
    "dev_steps", 1000, "Updates between measures of dev loss.", lower_bound=1
)
flags.DEFINE_integer(
    "checkpoint_steps",
    1000,
    "Updates between checkpoints; 0 for none.",
    lower_bound=0,
)
flags.DEFINE_float(
    "checkpoint_minutes",
    10.0,
    "Minutes between checkpoints; 0 for none.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "keep_checkpoints", 5, "How many checkpoints are kept.", lower_bound=1
)
flags.DEFINE_integer(
    "average_checkpoints",
    None,
    "How many of the last checkpoints are averaged into the final weights; "
    "the preset's own by default, 0 for none.",
)

_OWN_FIELDS = ("train_steps", "batch_tokens", "average_checkpoints")


def main(arguments):
    """Trains, scores and says what to do next."""
    del arguments
    config = settings.make_config(FLAGS.preset, FLAGS.set)
    config = _with_own_fields(config)
    if FLAGS.logical_cpus > 1:
        split_cpu(FLAGS.logical_cpus)
    corpus = open_corpus(
        FLAGS.dataset,
        FLAGS.source_language,
        FLAGS.target_language,
        FLAGS.data_dir,
        FLAGS.manual_dir,
    )
    name = f"{FLAGS.preset}-{corpus.source_language}-{corpus.target_language}"
    directory = ModelDirectory(FLAGS.model_dir or f"runs/{name}")
    plan = TrainingPlan(
        strategy=FLAGS.strategy,
        precision=FLAGS.precision,
        jit=FLAGS.jit,
        seed=FLAGS.seed,
        max_tokens=FLAGS.max_tokens,
        shapes=FLAGS.shapes,
        train_minutes=FLAGS.train_minutes,
        report_steps=FLAGS.report_steps,
        dev_steps=FLAGS.dev_steps,
        checkpoint_steps=FLAGS.checkpoint_steps,
        checkpoint_minutes=FLAGS.checkpoint_minutes,
        keep_checkpoints=FLAGS.keep_checkpoints,
    )
    prepared = prepare(directory, config, corpus, plan)
    step = train(prepared, plan)
    closing.close(prepared, corpus, step)


def _with_own_fields(config):
    """Applies the fields that have a flag of their own."""
    changes = {
        name: getattr(FLAGS, name)
        for name in _OWN_FIELDS
        if getattr(FLAGS, name) is not None
    }
    try:
        return config.replace(**changes)
    except ValueError as error:
        raise InputError(str(error)) from error


if __name__ == "__main__":
    command.run(main)
