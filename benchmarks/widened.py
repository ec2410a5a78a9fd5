"""Turns a small trained model into a large one that says the same.

    python benchmarks/widened.py --model_dir=NARROW --output_dir=WIDE

A model of the base size takes days to train on a CPU, and how long decoding
takes hangs on how long a trained model's outputs are. So this makes
weights of that size which compute what a small model's do.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras_transformer as kt
from benchmarks.decoding import widening
from export import command
from export.files.atomic import written_whole
from export.model_directory import ModelDirectory
from trainers.settings import make_config

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The small model.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Where the large one goes.", required=True
)
flags.DEFINE_string("preset", "base", "What the large one's sizes are.")
flags.DEFINE_multi_string(
    "set", [], "Another size, such as --set=vocabulary_size=32000."
)
flags.DEFINE_integer(
    "max_positions", 512, "Rows of the large one's positions.", lower_bound=1
)
flags.DEFINE_enum(
    "length_penalty",
    "power",
    ["power", "gnmt"],
    "Of the large one; other programs know length ** alpha only.",
)


def main(_):
    """Runs the command."""
    directory = ModelDirectory(FLAGS.model_dir)
    narrow = directory.load_model()
    config = widening.wide_config(
        narrow.config,
        make_config(FLAGS.preset, FLAGS.set),
        FLAGS.max_positions,
        FLAGS.length_penalty,
    )
    wide = kt.Transformer(config)
    widening.copy_weights(wide, narrow)
    vocabulary = widening.pad_vocabulary(
        directory.read_vocabulary(), config.vocabulary_size
    )
    with written_whole(FLAGS.output_dir) as temporary:
        output = ModelDirectory(temporary)
        output.write_config(config)
        output.write_run(directory.read_run())
        output.write_vocabulary(vocabulary)
        output.write_weights(wide)
    print(
        f"Wrote {FLAGS.output_dir}: {wide.count_params():,} weights that "
        f"compute what the {narrow.count_params():,} of {FLAGS.model_dir} do."
    )


if __name__ == "__main__":
    command.run(main)
