"""Markdown tables of results, with quartiles and provenance."""

import datetime
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import typing

from export.common import processes
from trainers.cost.devices import DEVICES


class Quartiles(typing.NamedTuple):
    """Median, first and third quartile over the rounds."""

    median: float
    low: float
    high: float

    def __format__(self, form):
        """Formats as "median (low–high)", with `form` for each number."""
        return f"{self.median:{form}} ({self.low:{form}}–{self.high:{form}})"


def quartiles(values):
    """Returns the Quartiles of one value per round."""
    values = list(values)
    if len(values) == 1:
        return Quartiles(*values * 3)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Quartiles(median, low, high)


def ratio(numerators, denominators):
    """Returns the Quartiles of the quotients in the same rounds."""
    return quartiles(a / b for a, b in zip(numerators, denominators))


def markdown_table(header, alignments, rows):
    """Returns a Markdown table of str; `alignments` is l or r per column."""
    rules = {"l": "---", "r": "---:"}
    lines = [header, [rules[letter] for letter in alignments], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def provenance(script, arguments, backend):
    """Returns a line with command, date and hardware."""
    command = shlex.join(
        [f"KERAS_BACKEND={backend}", "python", script, *arguments]
    )
    hardware = f"{processes.processor_count()} cores of {cpu_name()}"
    if gpu := gpu_name():
        hardware += f", {gpu}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    python = platform.python_version()
    return f"`{command}` on Python {python}, {today}, {hardware}."


def device(wanted):
    """Returns "cpu" or "gpu"; "auto" is the GPU if there is one."""
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
    """Returns the datasheet FLOP/s of this machine's GPU, or None."""
    dtype = {"mixed_bfloat16": "bfloat16"}.get(precision, precision)
    words = (gpu_name() or "").replace("-", " ").split()
    found = [DEVICES[word] for word in words if word in DEVICES]
    return found[0].flops.get(dtype) if found else None


def cpu_name():
    """Returns the CPU's name and wide instruction sets, on Linux."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    wide = [
        each
        for each in ("avx512f", "avx512_bf16", "amx_bf16")
        if re.search(rf"\b{each}\b", text)
    ]
    return " ".join([name[1] if name else platform.processor(), *wide])
