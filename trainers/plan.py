"""What a training will cost, before it is begun: `python -m trainers.plan`.

python -m trainers.plan --preset=big --pairs=36e6 --gpus=8xH100

Parameters and FLOPs are counted exactly; memory of activations, seconds,
energy and price are estimates, whose assumptions are printed with them.
"""

import dataclasses

from absl import flags

from export import command
from export.errors import InputError
from trainers.cost import Machine, packed_row, training_cost
from trainers.cost import devices as cost_machines
from trainers.cost.cost_report import figures_page, page
from trainers.cost.data import Data
from trainers.cost.memory import PRECISIONS
from trainers.cost.published_speeds import cpu_figures, gpu_figures
from trainers.prepared.prepared_corpus import PreparedCorpus
from trainers.settings import make_config

FLAGS = flags.FLAGS

_GIGA, _GIB = 1e9, 2**30
# About the mean of WMT14's sentences in pieces.
_USUAL_LENGTH = 30.0
# No larger number is meant.
_MOST = 1e15

flags.DEFINE_string("preset", "base", "A named TransformerConfig.")
flags.DEFINE_multi_string(
    "set", [], "Change a field of it, as name=value; repeatable."
)
flags.DEFINE_float(
    "pairs",
    None,
    "Sentence pairs of the train split, such as 36e6.",
    lower_bound=1.0,
    upper_bound=_MOST,
)
flags.DEFINE_float(
    "source_length",
    _USUAL_LENGTH,
    "Mean length of source sentences in pieces.",
    lower_bound=1.0,
    upper_bound=_MOST,
)
flags.DEFINE_float(
    "target_length",
    _USUAL_LENGTH,
    "Mean length of target sentences in pieces.",
    lower_bound=1.0,
    upper_bound=_MOST,
)
flags.DEFINE_string(
    "prepared_dir",
    None,
    "A folder of trainers.prepare, for number and lengths of pairs.",
)
flags.DEFINE_integer(
    "row_tokens",
    128,
    "Positions in a packed row of the longer side.",
    lower_bound=1,
    upper_bound=2**20,
)
flags.DEFINE_string(
    "gpus",
    "8xP100",
    "How many of which, by default the paper's: "
    f"{', '.join(cost_machines.DEVICES)}, or cpu, which needs --flops.",
)
flags.DEFINE_enum(
    "precision",
    None,
    PRECISIONS,
    "Of activations and products; mixed_bfloat16 where the device has fast "
    "products of it.",
)
flags.DEFINE_integer(
    "accumulate",
    None,
    "Micro-batches of an update; as few as fit by default.",
    lower_bound=1,
    upper_bound=2**20,
)
flags.DEFINE_float(
    "gpu_hour_price", None, "Price of a device's hour.", lower_bound=0.0
)
flags.DEFINE_bool(
    "published",
    False,
    "Print published and measured updates beside the predicted ones, and "
    "nothing else.",
)

flags.DEFINE_float(
    "flops",
    None,
    "FLOP/s of a device's float32 matrix products, such as 416e9; of a CPU as "
    "measured.",
    lower_bound=1.0,
)
flags.DEFINE_float(
    "bfloat16_flops", None, "The same of bfloat16 ones.", lower_bound=1.0
)
flags.DEFINE_float(
    "memory", None, "GiB of a device's memory.", lower_bound=0.001
)
flags.DEFINE_float(
    "memory_bandwidth", None, "GB/s of its memory.", lower_bound=0.001
)
flags.DEFINE_float(
    "link",
    None,
    "GB/s of one direction of its links to the others.",
    lower_bound=0.001,
)
flags.DEFINE_float("watts", None, "Its power at full load.", lower_bound=0.001)
command.require_finite(
    "pairs",
    "source_length",
    "target_length",
    "gpu_hour_price",
    "flops",
    "bfloat16_flops",
    "memory",
    "memory_bandwidth",
    "link",
    "watts",
)


def main(arguments):
    """Prints the plan."""
    del arguments
    if FLAGS.published:
        print(figures_page(gpu_figures(), cpu_figures()))
        return
    config = make_config(FLAGS.preset, FLAGS.set)
    data = _data(config)
    row = packed_row(data.source_mean, data.target_mean, FLAGS.row_tokens)
    cost = training_cost(config, _machine(), row, FLAGS.accumulate)
    table_2 = {name: make_config(name, []) for name in ("base", "big")}
    print(page(" ".join([FLAGS.preset, *FLAGS.set]), cost, data, table_2))


def _data(config):
    if not FLAGS.prepared_dir:
        return Data(FLAGS.pairs, FLAGS.source_length, FLAGS.target_length)
    if FLAGS.pairs is not None:
        raise InputError(
            "Give --pairs or --prepared_dir, which has its own number of them."
        )
    manifest = PreparedCorpus(FLAGS.prepared_dir).manifest
    prepared_with = manifest.source.vocabulary_size
    if prepared_with != config.source_pieces:
        raise InputError(
            f"The data in {FLAGS.prepared_dir} were prepared with "
            f"vocabulary_size={prepared_with}, not {config.source_pieces}; "
            f"use --set=vocabulary_size={prepared_with}."
        )
    train = manifest.splits.get("train")
    if train is None or not train.pairs:
        raise InputError(
            f"{FLAGS.prepared_dir} has no pairs to train on; prepare data "
            "that have a train split."
        )
    return Data(
        train.pairs,
        train.source_tokens / train.pairs,
        train.target_tokens / train.pairs,
    )


def _machine():
    count, name = cost_machines.parse(FLAGS.gpus)
    device = _with_own_figures(_device(name))
    if count > 1:
        _refuse_without_link(count, device)
    precision = FLAGS.precision
    if precision is None:
        fast = "bfloat16" in device.flops
        precision = "mixed_bfloat16" if fast else "float32"
    return Machine(
        device=device,
        count=count,
        precision=precision,
        hour_price=FLAGS.gpu_hour_price,
    )


def _device(name):
    if name != "cpu":
        return cost_machines.DEVICES[name]
    if FLAGS.flops is None:
        raise InputError(
            "--gpus=cpu needs --flops, what its matrix products were measured "
            "at: python benchmarks/train_step.py --systems=products."
        )
    return cost_machines.cpu({})


def _with_own_figures(device):
    """Returns the device with what the flags say in the table's place."""
    given = {"float32": FLAGS.flops, "bfloat16": FLAGS.bfloat16_flops}
    flops = device.flops | {
        dtype: rate for dtype, rate in given.items() if rate is not None
    }
    nearest = device.share.get("float32", 1.0)
    share = {dtype: device.share.get(dtype, nearest) for dtype in flops}
    changes = {
        field: factor * FLAGS[flag].value
        for flag, field, factor in (
            ("memory", "memory", _GIB),
            ("memory_bandwidth", "bandwidth", _GIGA),
            ("link", "link", _GIGA),
            ("watts", "watts", 1.0),
        )
        if FLAGS[flag].value is not None
    }
    source = device.source
    if changes or flops != device.flops:
        source += ", and what the flags say"
    return dataclasses.replace(
        device, flops=flops, share=share, source=source, **changes
    )


def _refuse_without_link(count, device):
    if FLAGS.link is None and count > cost_machines.MOST_GPUS:
        raise InputError(
            f"{count} devices are more than the {cost_machines.MOST_GPUS} that "
            "one machine's links join; give --link, the GB/s that one device "
            "has between machines."
        )
    if device.link is None:
        raise InputError(
            f"{count} x {device.name} need --link, the GB/s between them."
        )


if __name__ == "__main__":
    command.run(main, any_backend=True)
