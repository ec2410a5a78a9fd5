"""GPUs and CPUs: datasheet figures, and assumptions about each."""

import dataclasses
import re

from export.common.errors import InputError

_TERA, _GIGA, _GIB = 1e12, 1e9, 2**30
# Arrays of the logits' size that a step holds at once: logits and softmax;
# twice as many by XLA's own memory analysis (docs/measured/scaling.md).
UNCOMPILED_LOGITS = 2
COMPILED_LOGITS = 4
# Maximum number of GPUs that the links of the table connect in one machine.
MAX_GPUS = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, or a CPU with all its cores; None if unknown."""

    name: str
    # Peak FLOP/s of dense matrix products by dtype: float32 (TF32 where
    # TensorFlow uses it), bfloat16.
    flops: dict[str, float]
    # Assumed fraction of `flops` that an update's products reach, by dtype.
    utilization: dict[str, float]
    # Bytes, and bytes/s.
    memory: float | None = None
    bandwidth: float
    # Bytes/s of its links to other devices, in one direction.
    link: float | None = None
    # Power at full load.
    watts: float | None = None
    # Assumed time to launch a layer's forward and backward operations.
    layer_seconds: float
    # Float32 arrays of the logits' size that a step holds at once.
    logits_arrays: int
    source: str

    def rate(self, dtype: str) -> float:
        """Returns the assumed FLOP/s of products of a dtype."""
        if dtype not in self.flops:
            raise InputError(
                f"{self.name} has no fast products of {dtype}; use "
                "--precision=float32."
            )
        return self.flops[dtype] * self.utilization[dtype]


# Fitted to published figures of single GPUs (docs/scaling.md).
_UTILIZATION = {
    "P100": {"float32": 0.38},
    "V100": {"float32": 0.95},
    "A100": {"float32": 0.75, "bfloat16": 0.75},
}
# TFLOP/s by dtype.
_VOLTA = {"float32": 15.7}
_AMPERE = {"float32": 156, "bfloat16": 312}
# The datasheet gives the rates with sparsity, which doubles them.
_HOPPER = {"float32": 989 / 2, "bfloat16": 1979 / 2}
# PyTorch without a compiler, on V100 and A100: about 50 ms for 6 + 6 layers.
_LAYER_SECONDS = 0.050 / 12


def _gpu(name, tflops, gib, memory_gb, nvlink_gb, watts):
    """Returns a Device; `nvlink_gb` counts both directions."""
    family = name.partition("-")[0]
    return Device(
        name=name,
        flops={dtype: _TERA * rate for dtype, rate in tflops.items()},
        utilization=_UTILIZATION.get(family, _UTILIZATION["A100"]),
        memory=gib * _GIB,
        bandwidth=memory_gb * _GIGA,
        link=nvlink_gb / 2 * _GIGA,
        watts=watts,
        layer_seconds=_LAYER_SECONDS,
        logits_arrays=COMPILED_LOGITS,
        source=f"NVIDIA {family} datasheet, the SXM module",
    )


DEVICES = {
    device.name: device
    for device in (
        _gpu("P100", {"float32": 10.6}, 16, 732, 160, 300),
        _gpu("V100", _VOLTA, 16, 900, 300, 300),
        _gpu("V100-32GB", _VOLTA, 32, 900, 300, 300),
        _gpu("A100-40GB", _AMPERE, 40, 1555, 600, 400),
        _gpu("A100", _AMPERE, 80, 2039, 600, 400),
        _gpu("H100", _HOPPER, 80, 3350, 900, 700),
        _gpu("H200", _HOPPER, 141, 4800, 900, 700),
    )
}


def cpu_device(
    flops: dict[str, float], bandwidth: float = 50 * _GIGA
) -> Device:
    """Returns the Device of a CPU with measured FLOP/s, by dtype."""
    # 50 GB/s is what Adam reached on 2 cores (docs/measured/training_step.md).
    return Device(
        name="cpu",
        flops=flops,
        utilization=dict.fromkeys(flops, 1.0),
        bandwidth=bandwidth,
        layer_seconds=0.001,
        logits_arrays=UNCOMPILED_LOGITS,
        source="measured",
    )


def parse_gpus(text: str) -> tuple[int, str]:
    """Returns the (count, name) of "8xH100"; the count is optional."""
    match = re.fullmatch(r"(?:(\d{1,6})x)?([\w-]+)", text)
    if not match or match[1] and not int(match[1]):
        raise InputError(
            f"--gpus={text} must be a count and a name, such as 8xH100."
        )
    names = {name.lower(): name for name in (*DEVICES, "cpu")}
    if match[2].lower() not in names:
        raise InputError(
            f"--gpus={text}: expected one of {', '.join(names.values())}; take "
            "the nearest, and give its --flops, --memory, --watts and so on."
        )
    return int(match[1] or 1), names[match[2].lower()]
