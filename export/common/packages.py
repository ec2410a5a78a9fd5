"""Checks installed packages, and names the extra that installs one."""

import re
import sys

DISTRIBUTION = "keras-translation"
EXIT_INPUT_ERROR = 2
# As in pyproject.toml: at least the first version, below the second.
VERSIONS: dict[str, tuple[str, str | None]] = {
    "keras": ("3.10", "3.17"),
    "tensorflow": ("2.18", "2.22"),
    "tensorflow-cpu": ("2.18", "2.22"),
    "tensorflow-text": ("2.18", "2.22"),
    "jax": ("0.5", None),
    "sentencepiece": ("0.2.3", None),
}
KERAS_HUB_VERSIONS: dict[str, tuple[str, str | None]] = {
    "keras-hub": ("0.32", None)
}
# Extras of packages, by the names of imports.
EXTRAS = {
    "tensorflow": "tensorflow",
    "tensorflow_text": "tensorflow",
    "tensorflow_serving": "tensorflow",
    "jax": "jax",
    "importlib_resources": "train",
    "datasets": "datasets",
    "nltk": "train",
    "pyarrow": "parquet",
    "PIL": "train",
    "sacrebleu": "train",
    "tabulate": "train",
    "tensorboard": "train",
    "tensorflow_datasets": "train",
    "unearth": "train",
    "httptools": "serve",
    "prometheus_client": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "huggingface_hub": "hf",
    "keras_hub": "hub",
    "safetensors": "hub",
    "yaml": "hub",
    "fluent": "formats",
    "lxml": "formats",
    "markdown_it": "formats",
    "ctranslate2": "ctranslate2",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "ai_edge_litert": "litert",
    "py3langid": "languages",
    "ray": "ray",
}


def install_command(package: str) -> str:
    """Returns the shell command that installs a package, by import name."""
    if package in EXTRAS:
        return f"pip install '{DISTRIBUTION}[{EXTRAS[package]}]'"
    return f"pip install {DISTRIBUTION}"


def find_unsupported_version(
    versions: dict[str, tuple[str, str | None]] = VERSIONS,
) -> str | None:
    """Returns a message about an unsupported version, or None."""
    # Not at the top: it takes 25 ms, and only commands need it.
    import importlib.metadata

    for name, (lowest, limit) in versions.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        is_new = limit is not None and _numbers(found) >= _numbers(limit)
        if is_new or _numbers(found) < _numbers(lowest):
            bounds = f">={lowest}" + (f",<{limit}" if limit else "")
            return (
                f"{name} {found} is installed, expected {bounds}; run pip "
                f"install '{name}{bounds}'."
            )
    return None


def explain_import_error(error: ImportError) -> str | None:
    """Returns what to install after an ImportError; None for a bug."""
    package = (error.name or "").partition(".")[0]
    if package in ("export", "trainers", "keras_transformer"):
        return None
    if isinstance(error, ModuleNotFoundError) and package:
        return (
            f"The package {package} is not installed; run "
            f"{install_command(package)}."
        )
    return (
        f"A package cannot be imported ({error}); install the packages into a "
        "new virtual environment."
    )


def require_packages() -> None:
    """Ends the program with one line if packages are missing or unsupported.

    Also later, in place of the traceback of an import.
    """
    message = find_unsupported_version()
    if message is not None:
        _exit(message)

    def handle(kind, error, trace):
        message = None
        if isinstance(error, ImportError):
            message = explain_import_error(error)
        if message is None:
            sys.__excepthook__(kind, error, trace)
        else:
            _exit(message)

    sys.excepthook = handle


def _exit(message):
    print("Error:", message, file=sys.stderr)
    sys.exit(EXIT_INPUT_ERROR)


def _numbers(version):
    """Returns the numbers of a version: (3, 15) for 3.15.0rc1."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
