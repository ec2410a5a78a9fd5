"""Devices: their data as vendors print them, and what is assumed of them."""

import dataclasses
import re

from export.errors import InputError
from trainers.cost.memory import COMPILED_LOGITS, UNCOMPILED_LOGITS

_TERA, _GIGA, _GIB = 1e12, 1e9, 2**30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, or a CPU with all its cores.

    Attributes:
        name: of the table.
        flops: FLOP/s of dense matrix products at best, a dict of `float32`
            (TF32 where TensorFlow takes it by itself), `bfloat16` and
            `float16`, those there are.
        share: which share of these whole updates' products reach, a dict of
            the same keys. Assumed.
        memory: bytes; None where it is not known.
        bandwidth: bytes/s of its memory.
        link: bytes/s that one direction of its links to other devices
            carries; None where there are none.
        watts: at full load; None where it is not known.
        layer_seconds: what a layer's forward and backward pass takes however
            few the tokens, for starting its operations. Assumed.
        logits_arrays: how many arrays of the logits' size a step has there at
            once, see `trainers.cost.memory`.
        source: where the figures are from.
    """

    name: str
    flops: dict
    share: dict
    memory: float | None
    bandwidth: float
    link: float | None
    watts: float | None
    layer_seconds: float
    logits_arrays: int
    source: str

    def rate(self, dtype):
        """Returns the FLOP/s that products are assumed to run at.

        Args:
            dtype: of the products' factors.

        Raises:
            InputError: the device has no such products.
        """
        if dtype not in self.flops:
            raise InputError(
                f"{self.name} has no fast products of {dtype}; use "
                "--precision=float32."
            )
        return self.flops[dtype] * self.share[dtype]


# Chosen so that the figures of single GPUs in
# trainers.cost.published_speeds come out; those of several are then
# predictions. docs/scaling.md has both.
_SHARE = {
    "P100": {"float32": 0.38},
    "V100": {"float32": 0.95, "float16": 0.75},
    "A100": {"float32": 0.75, "bfloat16": 0.75, "float16": 0.75},
}
# PyTorch without a compiler, on V100 and A100: some 50 ms for 6 + 6 layers.
_LAYER_SECONDS = 0.050 / 12


def _gpu(name, family, tflops, gib, gigabytes_a_second, nvlink, watts):
    """A row of the table; `nvlink` is GB/s of both directions, as printed."""
    return Device(
        name=name,
        flops={dtype: _TERA * rate for dtype, rate in tflops.items()},
        share=_SHARE.get(family, _SHARE["A100"]),
        memory=gib * _GIB,
        bandwidth=gigabytes_a_second * _GIGA,
        link=nvlink / 2 * _GIGA,
        watts=watts,
        layer_seconds=_LAYER_SECONDS,
        logits_arrays=COMPILED_LOGITS,
        source=f"NVIDIA {family} datasheet, the SXM module",
    )


_VOLTA = {"float32": 15.7, "float16": 125}
_AMPERE = {"float32": 156, "bfloat16": 312, "float16": 312}
# The datasheets print these rates with sparsity, which doubles them.
_HOPPER = {"float32": 989 / 2, "bfloat16": 1979 / 2, "float16": 1979 / 2}

DEVICES = {
    device.name: device
    for device in (
        _gpu("P100", "P100", {"float32": 10.6}, 16, 732, 160, 300),
        _gpu("V100", "V100", _VOLTA, 16, 900, 300, 300),
        _gpu("V100-32GB", "V100", _VOLTA, 32, 900, 300, 300),
        _gpu("A100-40GB", "A100", _AMPERE, 40, 1555, 600, 400),
        _gpu("A100", "A100", _AMPERE, 80, 2039, 600, 400),
        _gpu("H100", "H100", _HOPPER, 80, 3350, 900, 700),
        _gpu("H200", "H200", _HOPPER, 141, 4800, 900, 700),
    )
}

# What can be joined in one machine by the links of the table.
MOST_GPUS = 16


def cpu(flops, bandwidth=50 * _GIGA):
    """Returns the Device of a CPU whose matrix products were measured.

    Args:
        flops: FLOP/s, a dict of `float32` and, where measured, `bfloat16`.
        bandwidth: bytes/s of its memory; by default what Adam reached on 2
            cores in docs/measured/training_step.md.
    """
    return Device(
        name="cpu",
        flops=flops,
        share=dict.fromkeys(flops, 1.0),
        memory=None,
        bandwidth=bandwidth,
        link=None,
        watts=None,
        layer_seconds=0.001,
        logits_arrays=UNCOMPILED_LOGITS,
        source="measured",
    )


def parse(text):
    """Returns how many devices of which kind "8xH100" names.

    Args:
        text: COUNTxNAME, or NAME for one.

    Returns:
        (int, name); the name is one of DEVICES or "cpu".

    Raises:
        InputError: it is not so written, or there is no such device.
    """
    found = re.fullmatch(r"(?:(\d{1,6})x)?([\w-]+)", text)
    if not found or found[1] and not int(found[1]):
        raise InputError(
            f"--gpus={text} must be a number and a name, such as 8xH100."
        )
    names = {name.lower(): name for name in (*DEVICES, "cpu")}
    if found[2].lower() not in names:
        raise InputError(
            f"--gpus={text}: there is no {found[2]!r} in the table; there are: "
            f"{', '.join(names.values())}. For another one take the nearest "
            "and give its own --flops, --bfloat16_flops, --memory, "
            "--memory_bandwidth, --link and --watts."
        )
    return int(found[1] or 1), names[found[2].lower()]
