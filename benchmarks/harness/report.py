"""The page of a run: a Markdown table, and how and where it was made."""

import dataclasses
import datetime
import pathlib
import platform
import shlex
import statistics
import subprocess

from export.files.atomic import written_whole
from trainers import processes
from trainers.cost.devices import DEVICES


@dataclasses.dataclass(frozen=True)
class Spread:
    """A quantity measured once a round.

    Attributes:
        median: of the rounds.
        low: first quartile.
        high: third quartile.
    """

    median: float
    low: float
    high: float

    def __format__(self, form):
        """Writes "median (low–high)", each number by the form."""
        return f"{self.median:{form}} ({self.low:{form}}–{self.high:{form}})"


def spread(values):
    """Returns the Spread of one value a round."""
    values = list(values)
    if len(values) == 1:
        return Spread(*values * 3)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratio(numerators, denominators):
    """Returns the Spread of the quotients, taken round by round.

    Both were measured in the same round, so what slows a whole round down
    cancels.
    """
    return spread(a / b for a, b in zip(numerators, denominators))


def markdown(header, alignments, rows):
    """Returns a Markdown table.

    Args:
        header: list of str.
        alignments: a letter for each column: l for left, r for right.
        rows: lists of str.
    """
    rules = {"l": "---", "r": "---:"}
    lines = [header, [rules[letter] for letter in alignments], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def publish(text, output):
    """Prints a page, and writes it to a file unless `output` is None."""
    print(text)
    if output:
        with written_whole(output) as path:
            path.write_text(text + "\n", encoding="utf-8")


def line(script, arguments, backend):
    """Returns one line: command, date and hardware.

    Args:
        script: of the command, such as "benchmarks/decode.py".
        arguments: of the command.
        backend: of Keras.
    """
    command = shlex.join(
        [
            f"KERAS_BACKEND={backend}",
            "python",
            script,
            *arguments,
        ]
    )
    hardware = f"{processes.processor_count()} cores of {cpu_name()}"
    if gpu := gpu_name():
        hardware += f", {gpu}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"`{command}` on Python {platform.python_version()}, {today}, "
        f"{hardware}."
    )


def device(wanted):
    """Returns "cpu" or "gpu"; "auto" is the GPU where there is one."""
    if wanted != "auto":
        return wanted
    return "gpu" if gpu_name() else "cpu"


def gpu_name():
    """Returns the first GPU's name, or None."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return next(iter(found.stdout.splitlines()), None)


def gpu_peak(precision):
    """Returns the FLOP/s of this machine's GPU, as its datasheet has them.

    Args:
        precision: "float32", which is TF32 where the GPU has it, or
            "mixed_bfloat16".

    Returns:
        float; None where there is no GPU, or none of `trainers.plan`'s table.
    """
    dtype = {"mixed_bfloat16": "bfloat16"}.get(precision, precision)
    words = (gpu_name() or "").replace("-", " ").split()
    found = [DEVICES[word] for word in words if word in DEVICES]
    return found[0].flops.get(dtype) if found else None


def cpu_name():
    """Returns the processor's name and the wide instructions it has."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    fields = dict(
        (part.strip() for part in line.split(":", 1))
        for line in text.split("\n\n")[0].splitlines()
        if ":" in line
    )
    present = fields.get("flags", "").split()
    wide = [
        name
        for name in ("avx512f", "avx512_bf16", "amx_bf16")
        if name in present
    ]
    return " ".join([fields.get("model name", platform.processor()), *wide])
