"""Times translation by this project beside others, in one run.

    python benchmarks/decode.py --model_dir=M --text=test.en --rounds=5

All systems have the same weights and translate the same sentences, from text
to text, at each beam and batch size. Each waits in a process of its own, and
they take turns, round by round.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import dataclasses

import keras

import keras_transformer as kt
from benchmarks.decoding.job import DecodeJob, SentencePieces, read_sentences
from benchmarks.decoding.measure import DecodeRun
from benchmarks.decoding.report import page
from benchmarks.decoding.systems import select_decoders
from benchmarks.harness import report
from benchmarks.harness.turns import NoiseMonitor
from export import command
from export.errors import InputError
from trainers import processes

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir",
    None,
    "Model directory, as trainers.wmt writes it; benchmarks/widened.py makes "
    "a large one of a small one.",
    required=True,
)
flags.DEFINE_string(
    "text",
    None,
    "UTF-8 text to translate, a sentence a line; .gz too.",
    required=True,
)
flags.DEFINE_integer(
    "sentences", 128, "How many, from all over the text.", lower_bound=1
)
flags.DEFINE_list(
    "systems",
    [],
    "Names with commas between; ratios are of the first one. Default: all "
    "whose packages are installed. On KERAS_BACKEND=tensorflow: ours, "
    "ours-side-by-side, ours-finished, ours-finished-side-by-side, "
    "ours-compiled, ours-finished-compiled, "
    "ours-aligned, ours-n-best, ours-served, ours-served-finished, "
    "ours-served-frozen, ctranslate2, ctranslate2-side-by-side, "
    "ctranslate2-int8, transformers, products, products-xla; on jax ours and "
    "the others' without products-xla.",
)
flags.DEFINE_list("beams", ["4", "1"], "Beam sizes.")
flags.DEFINE_list("batches", ["1", "8", "32", "128"], "Sentences in a batch.")
flags.DEFINE_integer(
    "rounds", 5, "How often each system visits each size.", lower_bound=1
)
flags.DEFINE_integer(
    "tries",
    3,
    "How often a visit is made, at most, while other programs take more than "
    "8 % of the cores; the shortest one counts.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "bfloat16"],
    "Of weights and products; the int8 system keeps its own.",
)
flags.DEFINE_enum(
    "device", "auto", ["auto", "cpu", "gpu"], "auto is the GPU if there is one."
)
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")


def main(_):
    """Runs the command."""
    backend = keras.backend.backend()
    chosen = select_decoders(backend, FLAGS.systems)
    beams = _numbers("beams")
    sizes = _numbers("batches")
    for size in sizes:
        if FLAGS.sentences % size:
            raise InputError(
                f"--sentences={FLAGS.sentences} do not fill batches of "
                f"{size}; give a multiple of each of --batches."
            )
    pieces = SentencePieces(FLAGS.model_dir)
    sentences, lengths = read_sentences(FLAGS.text, FLAGS.sentences, pieces)
    job = DecodeJob(
        model=FLAGS.model_dir,
        prepared="",
        config=_config(FLAGS.model_dir),
        precision=FLAGS.precision,
        device=report.device(FLAGS.device),
        cores=processes.processor_count(),
        sentences=sentences,
        source_lengths=lengths,
    )
    watch = NoiseMonitor(FLAGS.tries)
    run = DecodeRun(chosen, job, beams, sizes, FLAGS.rounds, watch)
    results = run.results()
    line = report.provenance("benchmarks/decode.py", sys.argv[1:], backend)
    report.publish(page(results, job, watch, line), FLAGS.output)


def _numbers(flag):
    try:
        numbers = [int(each) for each in FLAGS[flag].value]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InputError(
            f"--{flag} must be whole numbers from 1 on, with commas between, "
            f"not {','.join(FLAGS[flag].value)!r}."
        )
    return numbers


def _config(model_dir):
    path = pathlib.Path(model_dir) / "config.json"
    try:
        text = path.read_text(encoding="utf-8")
        config = kt.TransformerConfig.from_json(text)
    except (OSError, ValueError) as error:
        raise InputError(
            f"Cannot read {path} ({error}); --model_dir must be a model "
            "directory, as trainers.wmt writes it."
        ) from error
    if config.length_penalty != "power":
        raise InputError(
            f"{path} has length_penalty={config.length_penalty!r}, which "
            "other programs do not know; set it to 'power', as "
            "benchmarks/widened.py does."
        )
    return dataclasses.asdict(config)


if __name__ == "__main__":
    command.run(main)
