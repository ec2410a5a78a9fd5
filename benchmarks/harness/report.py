"""Which machine this is, and how the run was started."""

import datetime
import pathlib
import platform
import shlex
import subprocess

from trainers import processes


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
    hardware = f"{processes.count()} cores of {cpu_name()}"
    if gpu := gpu_name():
        hardware += f", {gpu}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"`{command}` on Python {platform.python_version()}, {today}, "
        f"{hardware}."
    )
