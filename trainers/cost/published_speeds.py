"""What others and we ourselves measured, to hold the estimates against."""

import dataclasses

import keras_transformer as kt
from trainers.cost.devices import DEVICES, cpu
from trainers.cost.memory import Shape
from trainers.cost.update import update_time

_NVIDIA = "NVIDIA DeepLearningExamples, PyTorch Transformer, README of 2022"
_FAIRSEQ = "M. Ott in fairseq#940, at least"
_PAPER = "Vaswani et al. 2017, section 5.2"
# Mean length of WMT's sentences in pieces, about; it moves attention's scores
# alone.
_LENGTH = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """An update that somebody timed.

    Attributes:
        what: name of it.
        source: who published it.
        seconds: of an update.
        predicted: seconds by `trainers.cost.update`.
        chosen_by: whether the assumptions were chosen with this figure in
            view, so that agreement says little.
    """

    what: str
    source: str
    seconds: float
    predicted: float
    chosen_by: bool

    @property
    def ratio(self):
        """Predicted for measured seconds."""
        return self.predicted / self.seconds


def _on_gpus(
    what, source, config, gpus, precision, tokens, seconds, chosen, passes=1
):
    count, name = gpus
    shape = Shape(tokens / _LENGTH, _LENGTH, _LENGTH, tokens)
    time = update_time(config, shape, passes, precision, DEVICES[name], count)
    return Measured(
        what=f"{count} x {name}, {what}",
        source=source,
        seconds=seconds,
        predicted=time.total,
        chosen_by=chosen,
    )


def gpu_figures():
    """Returns the published figures of GPUs, a list of Measured.

    Tokens are target tokens of a GPU and an update, with as many source
    tokens; the published batches may hold some padding among them.
    """
    return [*_of_the_paper(), *_of_nvidia(), *_of_fairseq()]


def _of_the_paper():
    return [
        _on_gpus(
            f"{name}, float32, 3,125",
            _PAPER,
            kt.TransformerConfig.preset(name),
            (8, "P100"),
            "float32",
            25_000 / 8,
            seconds,
            True,
        )
        for name, seconds in (("base", 0.4), ("big", 1.0))
    ]


def _of_nvidia():
    config = kt.TransformerConfig.preset("big", vocabulary_size=33_708)
    # GPU, precision, tokens of a GPU, tokens a second by number of GPUs.
    tables = (
        ("V100", "float32", 2560, {1: 8742, 4: 30_204, 8: 59_316}),
        ("V100", "float16", 5120, {1: 32_942, 4: 109_726, 8: 214_656}),
        ("V100-32GB", "float32", 5120, {1: 9827, 8: 68_929, 16: 136_253}),
        ("V100-32GB", "float16", 10_240, {1: 39_911, 8: 267_815, 16: 517_227}),
        ("A100-40GB", "float32", 10_240, {1: 51_057, 4: 179_245, 8: 347_936}),
        ("A100-40GB", "float16", 10_240, {1: 82_059, 4: 286_081, 8: 551_599}),
    )
    return [
        _on_gpus(
            f"big, {precision}, {tokens:,}",
            _NVIDIA,
            config,
            (count, name),
            precision,
            tokens,
            count * tokens / rate,
            count == 1,
        )
        for name, precision, tokens, rates in tables
        for count, rate in rates.items()
    ]


def _of_fairseq():
    # "At least" so many words a second; "3500 or 4000" tokens of a GPU.
    base = kt.TransformerConfig.preset("base", vocabulary_size=30_000)
    big = kt.TransformerConfig.preset("big", vocabulary_size=32_768)
    return [
        *(
            _on_gpus(
                f"base, {precision}, 3,500",
                _FAIRSEQ,
                base,
                (4, "V100"),
                precision,
                3500,
                4 * 3500 / rate,
                False,
            )
            for precision, rate in (("float32", 73_000), ("float16", 160_000))
        ),
        _on_gpus(
            "big, float16, 3,584",
            "fairseq timed in NVIDIA/OpenSeq2Seq#250",
            big,
            (1, "V100"),
            "float16",
            3584,
            0.148,
            False,
        ),
        # Updates of 402,000 tokens, 9,700 of them: quoted in fairseq#361 for
        # more GPUs and the same batch.
        _on_gpus(
            "big, float16, 14 x 3,584",
            "Ott et al. 2018, abstract, under 5 hours; fairseq#361",
            big,
            (8, "V100"),
            "float16",
            3584,
            5 * 3600 / 9700,
            False,
            passes=14,
        ),
    ]


# Batches of benchmarks/train_step.py: rows, S, T and real target tokens, and
# how often each is met.
_PACKED = ((1, Shape(16, 115, 111, 1760)),)
_MIXED = ((1, Shape(196, 20, 19, 1760)),)
_LONG = ((588, Shape(273, 15, 15, 2401)), (131, Shape(73, 56, 56, 1276)))
_SHORT = ((2358, Shape(68, 15, 15, 580)), (529, Shape(18, 56, 56, 313)))
_TINY = ((1, Shape(16, 65, 63, 995)),)
_FEW = ((1, Shape(8, 82, 78, 614)),)
_STEP = "docs/measured/training_step.md"
_SIZES = "docs/measured/scaling.md, a busy machine"
# Preset and batch, GFLOP/s of the products timed beside it, seconds.
_CPU_STEPS = (
    ("base, packed rows, 4,096", _STEP, _PACKED, {"float32": 418}, 1.917),
    ("base, the same padded, 4,096", _STEP, _MIXED, {"float32": 418}, 3.279),
    ("base, one length, 4,096", _STEP, _LONG, {"float32": 416}, 3.629),
    ("base, one length, 1,024", _STEP, _SHORT, {"float32": 408}, 1.007),
    (
        "base, the same, mixed_bfloat16",
        _STEP,
        _SHORT,
        {"float32": 408, "bfloat16": 834},
        0.7058,
    ),
    ("base, slower CPU, packed", _STEP, _PACKED, {"float32": 191}, 4.018),
    ("base, slower CPU, padded", _STEP, _MIXED, {"float32": 191}, 6.806),
    ("base, slower CPU, one length", _STEP, _LONG, {"float32": 190}, 7.238),
    ("tiny, packed rows, 2,048", _SIZES, _TINY, {"float32": 214}, 0.0776),
    ("base, packed rows, 1,024", _SIZES, _FEW, {"float32": 268}, 1.194),
    ("big, packed rows, 1,024", _SIZES, _FEW, {"float32": 289}, 3.826),
)


def cpu_figures():
    """Returns our own measured CPU steps, a list of Measured."""
    return [
        Measured(
            what=what,
            source=source,
            seconds=seconds,
            predicted=_mean_seconds(
                kt.TransformerConfig.preset(what.partition(",")[0]),
                batches,
                rates,
            ),
            chosen_by=False,
        )
        for what, source, batches, rates, seconds in _CPU_STEPS
    ]


def _mean_seconds(config, batches, rates):
    device = cpu({dtype: 1e9 * rate for dtype, rate in rates.items()})
    precision = "mixed_bfloat16" if "bfloat16" in rates else "float32"
    weights = sum(weight for weight, _ in batches)
    return (
        sum(
            weight * update_time(config, shape, 1, precision, device, 1).total
            for weight, shape in batches
        )
        / weights
    )
