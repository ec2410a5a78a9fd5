"""Published and measured update times, to check the estimates against."""

import typing

import keras_transformer as kt
from trainers.cost.cost_estimate import total_seconds, update_seconds
from trainers.cost.devices import DEVICES, cpu
from trainers.cost.memory import Shape

# Mean length of WMT's sentences in tokens, about; it changes attention's
# scores only.
_LENGTH = 30


class TimedUpdate(typing.NamedTuple):
    """An update that somebody timed.

    Attributes:
        name: GPUs, model, precision and target tokens.
        source: who published it.
        seconds: measured.
        predicted: seconds by `trainers.cost.cost_estimate`.
        fitted: whether the assumptions were fitted to it, so that agreement
            says little.
    """

    name: str
    source: str
    seconds: float
    predicted: float
    fitted: bool

    @property
    def ratio(self):
        """Predicted for measured seconds."""
        return self.predicted / self.seconds


_PAPER = "Vaswani et al. 2017, section 5.2"
_FAIRSEQ = "M. Ott in fairseq#940, at least"
_NVIDIA = "NVIDIA DeepLearningExamples, PyTorch Transformer, README of 2022"
# Preset, vocabulary, GPUs, precision, target tokens of a GPU (with as many
# source tokens, and maybe some padding), micro-batches, seconds, source,
# fitted.
_GPU_UPDATES = [
    ("base", 37_000, 8, "P100", "float32", 3125, 1, 0.4, _PAPER, True),
    ("big", 37_000, 8, "P100", "float32", 3125, 1, 1.0, _PAPER, True),
    # "At least" so many words a second; "3500 or 4000" tokens of a GPU.
    *(
        ("base", 30_000, 4, "V100", precision, 3500, 1, 4 * 3500 / rate)
        + (_FAIRSEQ, False)
        for precision, rate in (("float32", 73_000), ("float16", 160_000))
    ),
    ("big", 32_768, 1, "V100", "float16", 3584, 1, 0.148)
    + ("fairseq timed in NVIDIA/OpenSeq2Seq#250", False),
    # Updates of 402,000 tokens, 9,700 of them: quoted in fairseq#361 for more
    # GPUs and the same batch.
    ("big", 32_768, 8, "V100", "float16", 3584, 14, 5 * 3600 / 9700)
    + ("Ott et al. 2018, abstract, under 5 hours; fairseq#361", False),
]
# GPU, precision, tokens of a GPU, tokens a second by number of GPUs.
for _name, _precision, _tokens, _rates in (
    ("V100", "float32", 2560, {1: 8742, 4: 30_204, 8: 59_316}),
    ("V100", "float16", 5120, {1: 32_942, 4: 109_726, 8: 214_656}),
    ("V100-32GB", "float32", 5120, {1: 9827, 8: 68_929, 16: 136_253}),
    ("V100-32GB", "float16", 10_240, {1: 39_911, 8: 267_815, 16: 517_227}),
    ("A100-40GB", "float32", 10_240, {1: 51_057, 4: 179_245, 8: 347_936}),
    ("A100-40GB", "float16", 10_240, {1: 82_059, 4: 286_081, 8: 551_599}),
):
    _GPU_UPDATES += [
        ("big", 33_708, count, _name, _precision, _tokens, 1)
        + (count * _tokens / rate, _NVIDIA, count == 1)
        for count, rate in _rates.items()
    ]


def gpu_updates():
    """Returns the published updates of GPUs, a list of TimedUpdate."""
    updates = []
    for row in _GPU_UPDATES:
        preset, vocabulary, count, gpu, precision, tokens, passes = row[:7]
        seconds, source, fitted = row[7:]
        parts = update_seconds(
            kt.TransformerConfig.preset(preset, vocabulary_size=vocabulary),
            Shape(tokens / _LENGTH, _LENGTH, _LENGTH, tokens),
            passes,
            precision,
            DEVICES[gpu],
            count,
        )
        name = f"{count} x {gpu}, {preset}, {precision}, "
        name += f"{passes} x {tokens:,}" if passes > 1 else f"{tokens:,}"
        predicted = total_seconds(parts)
        updates.append(TimedUpdate(name, source, seconds, predicted, fitted))
    return updates


# Batches of benchmarks/train_step.py: how often each shape occurs, and rows,
# S, T and target tokens without padding.
_PACKED = ((1, Shape(16, 115, 111, 1760)),)
_MIXED = ((1, Shape(196, 20, 19, 1760)),)
_LONG = ((588, Shape(273, 15, 15, 2401)), (131, Shape(73, 56, 56, 1276)))
_SHORT = ((2358, Shape(68, 15, 15, 580)), (529, Shape(18, 56, 56, 313)))
_TINY = ((1, Shape(16, 65, 63, 995)),)
_FEW = ((1, Shape(8, 82, 78, 614)),)
_STEP = "docs/measured/training_step.md"
_SIZES = "docs/measured/scaling.md, a busy machine"
# Preset and batch, GFLOP/s of matrix products measured in the same run,
# seconds.
_CPU_UPDATES = (
    ("base, packed rows, 4,096", _STEP, _PACKED, {"float32": 418}, 1.917),
    ("base, the same padded, 4,096", _STEP, _MIXED, {"float32": 418}, 3.279),
    ("base, one length, 4,096", _STEP, _LONG, {"float32": 416}, 3.629),
    ("base, one length, 1,024", _STEP, _SHORT, {"float32": 408}, 1.007),
    ("base, the same, mixed_bfloat16", _STEP, _SHORT)
    + ({"float32": 408, "bfloat16": 834}, 0.7058),
    ("base, slower CPU, packed", _STEP, _PACKED, {"float32": 191}, 4.018),
    ("base, slower CPU, padded", _STEP, _MIXED, {"float32": 191}, 6.806),
    ("base, slower CPU, one length", _STEP, _LONG, {"float32": 190}, 7.238),
    ("tiny, packed rows, 2,048", _SIZES, _TINY, {"float32": 214}, 0.0776),
    ("base, packed rows, 1,024", _SIZES, _FEW, {"float32": 268}, 1.194),
    ("big, packed rows, 1,024", _SIZES, _FEW, {"float32": 289}, 3.826),
)


def cpu_updates():
    """Returns this trainer's measured CPU updates, a list of TimedUpdate."""
    updates = []
    for name, source, batches, rates, seconds in _CPU_UPDATES:
        config = kt.TransformerConfig.preset(name.partition(",")[0])
        device = cpu({dtype: 1e9 * rate for dtype, rate in rates.items()})
        precision = "mixed_bfloat16" if "bfloat16" in rates else "float32"
        weighted = [
            weight
            * total_seconds(
                update_seconds(config, shape, 1, precision, device, 1)
            )
            for weight, shape in batches
        ]
        predicted = sum(weighted) / sum(weight for weight, _ in batches)
        updates.append(TimedUpdate(name, source, seconds, predicted, False))
    return updates
