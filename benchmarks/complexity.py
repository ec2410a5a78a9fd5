"""Measures Table 1 of the paper: what a layer of each type costs.

    python benchmarks/complexity.py --output_dir=docs

Each layer type waits in a process of its own, and they take turns, size by
size and round by round. What was measured is kept after every size: the same
command goes on where one was stopped.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Table 1 is of one processor's work: the other processes take no GPU either.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras

from benchmarks.harness import report
from benchmarks.harness.systems import select_systems
from benchmarks.harness.turns import log
from benchmarks.layer_types.layers import TYPES
from benchmarks.layer_types.measure import (
    LayerJob,
    LayerRun,
    LayerSize,
    ResultStore,
)
from benchmarks.layer_types.memory import MemoryProbe
from benchmarks.layer_types.paths import count_layer_types
from benchmarks.layer_types.report import write
from benchmarks.layer_types.results import Results
from export import command
from export.errors import InputError
from trainers import processes

FLAGS = flags.FLAGS

_PASSES = {"forward": False, "both": True}

flags.DEFINE_string(
    "output_dir",
    None,
    "complexity.md goes there, figures and cells.jsonl, what was measured, to "
    "complexity/ in it.",
    required=True,
)
flags.DEFINE_list(
    "layers",
    [],
    f"Names with commas between; default: {','.join(TYPES['tensorflow'])}. "
    "Sizes at which one of them was not measured yet are measured again, with "
    "these alone.",
)
flags.DEFINE_list(
    "lengths",
    [str(2**power) for power in range(6, 15)],
    "n: positions, with commas between.",
)
flags.DEFINE_list(
    "widths", ["128", "256", "512", "1024"], "d, with commas between."
)
flags.DEFINE_list(
    "passes",
    list(_PASSES),
    "forward; both, which is forward and backward.",
)
flags.DEFINE_integer(
    "rounds", 3, "How often each layer visits each size.", lower_bound=1
)
flags.DEFINE_float(
    "visit_seconds",
    0.1,
    "Calls are repeated for so long at each visit, and averaged.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "tries",
    2,
    "How often a visit is made, at most, while other programs take more than "
    "8 % of the cores; the shortest one counts.",
    lower_bound=1,
)
flags.DEFINE_float(
    "most_seconds",
    10.0,
    "Sizes are left out at which a call would take longer, by the time of the "
    "next shorter one.",
    lower_bound=0.0,
)
flags.DEFINE_float(
    "memory_gib",
    None,
    "Sizes are left out at which attention's weights would take more; default: "
    "two fifths of the machine's.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "memory_from",
    1024,
    "Memory is measured from this length on; a shorter sequence takes less "
    "than what else happens in a process.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "fit_from",
    2048,
    "Exponents of n are fitted from this length on, that of full attention "
    "from twice as far.",
    lower_bound=1,
)
flags.DEFINE_list(
    "path_lengths",
    ["16", "64", "128"],
    "n of the stacks in which paths are followed, with commas between.",
)
command.require_finite("visit_seconds", "most_seconds", "memory_gib")


def main(_):
    """Runs the command."""
    backend = keras.backend.backend()
    chosen = select_systems(TYPES, backend, FLAGS.layers)
    sizes = [
        LayerSize(width, length, both)
        for width in _numbers("widths")
        for length in _numbers("lengths")
        for both in _chosen_passes()
    ]
    path_lengths = _numbers("path_lengths")
    cells = ResultStore(
        pathlib.Path(FLAGS.output_dir, "complexity", "cells.jsonl")
    )
    with MemoryProbe() as probe:
        left_out = _run(chosen, sizes, cells, probe).run()
    log("Following signals through stacks of layers")
    counted = {length: count_layer_types(length) for length in path_lengths}
    results = Results(chosen, sizes, cells, FLAGS.fit_from)
    line = report.provenance("benchmarks/complexity.py", sys.argv[1:], backend)
    line += (
        " Other programs took more than 8 % of the machine in "
        f"{results.disturbed} of {results.visits} visits."
    )
    print(f"Wrote {write(results, counted, left_out, line, FLAGS.output_dir)}.")


def _run(chosen, sizes, cells, probe):
    return LayerRun(
        chosen=chosen,
        sizes=sizes,
        cells=cells,
        job=LayerJob(processes.processor_count()),
        rounds=FLAGS.rounds,
        at_least=FLAGS.visit_seconds,
        most_seconds=FLAGS.most_seconds,
        memory=_memory(),
        memory_from=FLAGS.memory_from,
        probe=probe,
        tries=FLAGS.tries,
    )


def _numbers(name):
    """Returns a flag's whole numbers in order; 2 is the least."""
    try:
        numbers = sorted({int(each) for each in FLAGS[name].value})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 2:
        raise InputError(
            f"--{name}={','.join(FLAGS[name].value)} must be whole numbers "
            "above 1 with commas between, such as 64,128."
        )
    return numbers


def _chosen_passes():
    for name in FLAGS.passes:
        if name not in _PASSES:
            raise InputError(
                f"--passes has {name!r}; there are {' and '.join(_PASSES)}."
            )
    return [both for name, both in _PASSES.items() if name in FLAGS.passes]


def _memory():
    """Returns how many bytes a call may take."""
    if FLAGS.memory_gib is not None:
        return int(FLAGS.memory_gib * 2**30)
    # The process that is timed still holds what it took for the size before.
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(0.4 * whole)


if __name__ == "__main__":
    command.run(main)
