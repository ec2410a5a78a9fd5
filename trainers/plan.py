"""Estimates the cost of a training: `python -m trainers.plan`.

python -m trainers.plan --preset=big --pairs=36e6 --gpus=8xH100

Parameters and FLOPs are exact; memory of activations, seconds, energy and
price are estimates; docs/scaling.md lists what they assume.
"""

import dataclasses

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers.cost.cost_estimate import PRECISIONS, packed_row, training_cost
from trainers.cost.cost_report import make_report
from trainers.cost.devices import DEVICES, MAX_GPUS, cpu_device, parse_gpus
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.training.config_flags import make_config

FLAGS = flags.FLAGS

flags.DEFINE_string("preset", "base", "A named TransformerConfig.")
flags.DEFINE_multi_string(
    "set", [], "Change a field of it, as name=value; repeatable."
)
flags.DEFINE_float(
    "pairs",
    None,
    "Sentence pairs of the train split, such as 36e6.",
    lower_bound=1.0,
)
flags.DEFINE_float(
    "source_length", 30.0, "Mean tokens of a source; WMT14's by default.", 1.0
)
flags.DEFINE_float(
    "target_length", 30.0, "Mean tokens of a target; WMT14's by default.", 1.0
)
flags.DEFINE_string(
    "prepared_dir",
    None,
    "Folder of trainers.prepare to read --pairs and lengths from.",
)
flags.DEFINE_integer(
    "row_tokens",
    128,
    "Positions of a packed row, on its longer side.",
    lower_bound=1,
    upper_bound=2**20,
)
flags.DEFINE_string(
    "gpus",
    "8xP100",
    f"Number and kind of devices: {', '.join(DEVICES)}, or cpu with --flops.",
)
flags.DEFINE_enum(
    "precision",
    None,
    PRECISIONS,
    "Dtype policy; by default mixed_bfloat16 where the device is fast in it.",
)
flags.DEFINE_integer(
    "accumulate",
    None,
    "Micro-batches per update; by default as few as fit.",
    lower_bound=1,
    upper_bound=2**20,
)
flags.DEFINE_float(
    "gpu_hour_price", None, "Price of a device's hour.", lower_bound=0.0
)
flags.DEFINE_float(
    "flops", None, "FLOP/s of a device's float32 products, as 416e9.", 1.0
)
flags.DEFINE_float(
    "bfloat16_flops", None, "FLOP/s of its bfloat16 products.", 1.0
)
flags.DEFINE_float("memory", None, "Its memory in GiB.", 0.001)
flags.DEFINE_float("memory_bandwidth", None, "Its bandwidth in GB/s.", 0.001)
flags.DEFINE_float(
    "link", None, "GB/s of one direction of its links to others.", 0.001
)
flags.DEFINE_float("watts", None, "Its power at full load in W.", 0.001)
# Flags that override a field of the Device: its name, and the flag's unit.
_DEVICE_FLAGS = {
    "memory": ("memory", 2**30),
    "memory_bandwidth": ("bandwidth", 1e9),
    "link": ("link", 1e9),
    "watts": ("watts", 1.0),
}
command.mark_flags_as_finite("pairs", "source_length", "target_length", "flops")
command.mark_flags_as_finite("bfloat16_flops", "gpu_hour_price", *_DEVICE_FLAGS)


def main(arguments: list[str]) -> None:
    """Prints the estimate."""
    del arguments
    config = make_config(FLAGS.preset, FLAGS.set)
    mean_lengths: tuple[float, float]
    pairs, mean_lengths = _corpus_size(config)
    row = packed_row(*mean_lengths, FLAGS.row_tokens)
    device, count = _devices()
    fastest = "mixed_bfloat16" if "bfloat16" in device.flops else "float32"
    precision = FLAGS.precision or fastest
    cost = training_cost(
        config, row, device, count, precision, FLAGS.accumulate
    )
    name = " ".join([FLAGS.preset, *FLAGS.set])
    print(make_report(name, cost, FLAGS.gpu_hour_price, pairs, mean_lengths))


def _corpus_size(config):
    """Returns (pairs, mean lengths of source and target sentences)."""
    folder = FLAGS.prepared_dir
    if not folder:
        return FLAGS.pairs, (FLAGS.source_length, FLAGS.target_length)
    for name in ("pairs", "source_length", "target_length"):
        if FLAGS[name].present:
            raise InputError(
                f"Expected --{name} or --prepared_dir, got both; drop one of "
                "them."
            )
    manifest = PreparedCorpus(folder).manifest
    vocabulary_size = manifest.source.vocabulary_size
    if vocabulary_size != config.encoder_vocabulary_size:
        raise InputError(
            f"Expected data in {folder} with vocabulary_size="
            f"{config.encoder_vocabulary_size}, got {vocabulary_size}; use "
            f"--set=vocabulary_size={vocabulary_size}."
        )
    train = manifest.splits.get("train")
    if train is None or not train.num_pairs:
        raise InputError(
            f"{folder} has no train split; prepare data that have one."
        )
    tokens = train.source.num_tokens, train.target.num_tokens
    return train.num_pairs, tuple(count / train.num_pairs for count in tokens)


def _devices():
    """Returns the Device of --gpus and the number of devices."""
    count, name = parse_gpus(FLAGS.gpus)
    if name == "cpu" and FLAGS.flops is None:
        raise InputError(
            "--gpus=cpu needs --flops, the measured rate of its matrix "
            "products: python benchmarks/train_step.py --systems=products."
        )
    device = _with_flags(cpu_device({}) if name == "cpu" else DEVICES[name])
    needs_link = count > MAX_GPUS or (count > 1 and device.link is None)
    if needs_link and FLAGS.link is None:
        raise InputError(
            f"{count} x {name} need --link, the GB/s that one device has to "
            f"the others; the table's links join at most {MAX_GPUS} GPUs of "
            "one machine."
        )
    return device, count


def _with_flags(device):
    """Returns the device with fields replaced by flags."""
    flops = {"float32": FLAGS.flops, "bfloat16": FLAGS.bfloat16_flops}
    flops = {dtype: rate for dtype, rate in flops.items() if rate is not None}
    changes = {
        field: unit * FLAGS[flag].value
        for flag, (field, unit) in _DEVICE_FLAGS.items()
        if FLAGS[flag].value is not None
    }
    if not flops and not changes:
        return device
    utilization = device.utilization.get("float32", 1.0)
    return dataclasses.replace(
        device,
        flops=device.flops | flops,
        utilization=dict.fromkeys(flops, utilization) | device.utilization,
        source=f"{device.source}, and flags",
        **changes,
    )


if __name__ == "__main__":
    command.run(main, any_backend=True)
