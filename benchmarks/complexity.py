"""Measures Table 1 of the paper: the cost of each layer type.

    python benchmarks/complexity.py --output_dir=docs/measured

Each layer type runs in its own process; they alternate by size and round.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Table 1 is about one CPU; worker processes must not use a GPU either.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras

from benchmarks.harness import report
from benchmarks.harness.turns import log, measure_systems, parse_numbers
from benchmarks.harness.worker import select_systems
from benchmarks.layer_types.layers import (
    FULL,
    TYPES,
    LayerJob,
    LayerSize,
    measure_memory,
    score_bytes,
)
from benchmarks.layer_types.paths import count_layer_types
from benchmarks.layer_types.report import Results, write
from export.common import command, processes
from export.common.errors import InputError

FLAGS = flags.FLAGS

_PASSES = {"forward": False, "both": True}

flags.DEFINE_string(
    "output_dir",
    None,
    "Directory for complexity.md; figures go to complexity/ in it.",
    required=True,
)
flags.DEFINE_list(
    "layers", [], f"Names, separated by commas; default: {','.join(TYPES)}."
)
flags.DEFINE_list(
    "lengths", [str(2**power) for power in range(6, 15)], "n: positions."
)
flags.DEFINE_list("widths", ["128", "256", "512", "1024"], "d.")
flags.DEFINE_list(
    "passes", list(_PASSES), "forward; both, which is forward and backward."
)
flags.DEFINE_integer(
    "rounds", 3, "How often each layer is timed at each size.", lower_bound=1
)
flags.DEFINE_float("visit_seconds", 0.1, "Of repeated calls.", lower_bound=0.0)
flags.DEFINE_float(
    "memory_gib",
    None,
    "Skips sizes at which attention's weights take more; default: two fifths "
    "of the machine's.",
    0.0,
)
flags.DEFINE_integer(
    "memory_from", 1024, "Memory is measured from this length on.", 1
)
flags.DEFINE_integer(
    "fit_from", 2048, "Least n of fits; twice that of full attention.", 1
)
flags.DEFINE_list(
    "path_lengths", ["16", "64", "128"], "n of the stacks to count paths in."
)
command.mark_flags_as_finite("visit_seconds", "memory_gib")


def main(_):
    backend = keras.backend.backend()
    chosen = select_systems({"tensorflow": TYPES}, backend, FLAGS.layers)
    sizes = [
        LayerSize(width, length, _PASSES[name])
        for width in _numbers("widths")
        for length in _numbers("lengths")
        for name in _passes()
    ]
    path_lengths = _numbers("path_lengths")
    skip = [(FULL, size) for size in sizes if score_bytes(size) > _max_bytes()]
    measurements = measure_systems(
        chosen,
        lambda name, answers: LayerJob(processes.processor_count()),
        sizes,
        FLAGS.rounds,
        arguments=(FLAGS.visit_seconds,),
        skip=skip,
    )
    log("Measuring memory")
    seconds = {
        (each.name, size): [timing.mean for timing in timings]
        for each in measurements
        for size, timings in each.timings.items()
    }
    calls = [call for call in seconds if call[1].length >= FLAGS.memory_from]
    results = Results(
        chosen, sizes, seconds, measure_memory(chosen, calls), FLAGS.fit_from
    )
    log("Following signals through stacks of layers")
    counts = {length: count_layer_types(length) for length in path_lengths}
    line = report.provenance("benchmarks/complexity.py", sys.argv[1:], backend)
    page = write(results, counts, line, FLAGS.output_dir)
    print(f"Wrote {page}.")


def _numbers(name):
    values = parse_numbers(name, FLAGS[name].value, least=2)
    return sorted(set(values))


def _passes():
    if not FLAGS.passes or not set(FLAGS.passes) <= set(_PASSES):
        raise InputError(
            f"Expected --passes of {', '.join(_PASSES)}, got "
            f"{','.join(FLAGS.passes)!r}."
        )
    return [name for name in _PASSES if name in FLAGS.passes]


def _max_bytes():
    if FLAGS.memory_gib is not None:
        return int(FLAGS.memory_gib * 2**30)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(0.4 * memory)


if __name__ == "__main__":
    command.run(main)
