"""Every system that can translate, by its name on the command line."""

import dataclasses
import importlib
import importlib.util
import typing

from benchmarks import decode_models
from export.errors import InputError


@dataclasses.dataclass(frozen=True)
class DecodeSystem:
    """Where a system is made and what it needs.

    Attributes:
        module: that holds it, under benchmarks.peers.
        packages: that must be installed.
        keras_backend: it runs on, whether or not it uses Keras.
        prepare: function of the model directory (of the beam) and a folder
            to write to; returns the path that the system reads.
        translates: whether it does more than multiply matrices.
        maker: name of the function in the module that makes it of a job.
    """

    module: str
    packages: tuple[str, ...]
    keras_backend: str
    prepare: typing.Callable = decode_models.as_it_is
    translates: bool = True
    maker: str = "make"

    def make(self, job):
        """Returns what runs it: with `note` and `translate(batch)`."""
        module = importlib.import_module(f"benchmarks.peers.{self.module}")
        return getattr(module, self.maker)(job)

    def missing_package(self):
        """Returns the name of a package that it lacks, or None."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return package
        return None


def _of_others(backend):
    return {
        "ctranslate2": DecodeSystem(
            "decode_ctranslate2",
            ("ctranslate2",),
            backend,
            decode_models.ctranslate2,
        ),
        "ctranslate2-int8": DecodeSystem(
            "decode_ctranslate2",
            ("ctranslate2",),
            backend,
            decode_models.ctranslate2_int8,
        ),
        "transformers": DecodeSystem(
            "decode_marian",
            ("torch", "transformers"),
            "torch",
            decode_models.marian,
        ),
        "products": DecodeSystem(
            "decode_products", (backend,), backend, translates=False
        ),
    }


_ON_BACKEND = {
    "tensorflow": {
        "ours": DecodeSystem(
            "decode_ours", ("tensorflow", "tensorflow_text"), "tensorflow"
        ),
        "ours-finished": DecodeSystem(
            "decode_ours",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_finished",
        ),
        "ours-served": DecodeSystem(
            "decode_served",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            decode_models.exported,
        ),
        **_of_others("tensorflow"),
        "products-xla": DecodeSystem(
            "decode_products",
            ("tensorflow",),
            "tensorflow",
            translates=False,
            maker="make_xla",
        ),
    },
    "jax": {
        "ours": DecodeSystem("decode_ours_jax", ("jax",), "jax"),
        **_of_others("jax"),
    },
}


def decode_systems_on(backend):
    """Returns a dict of name to DecodeSystem.

    Args:
        backend: of Keras; "tensorflow" or "jax".

    Raises:
        InputError: nothing is measured on such a backend.
    """
    if backend not in _ON_BACKEND:
        raise InputError(
            f"KERAS_BACKEND={backend} is not measured; set it to "
            f"{' or '.join(_ON_BACKEND)}."
        )
    return _ON_BACKEND[backend]


def choose_decoders(backend, names):
    """Returns the systems to time, in the order of the names.

    Args:
        backend: of Keras.
        names: of systems; none for all whose packages are installed.

    Returns:
        Dict of name to DecodeSystem.

    Raises:
        InputError: an unknown name, a package is missing, or nothing is
            there that translates.
    """
    known = decode_systems_on(backend)
    chosen = names or [
        name for name, each in known.items() if each.missing_package() is None
    ]
    for name in chosen:
        if name not in known:
            raise InputError(
                f"There is no system {name!r} on {backend}; there are: "
                f"{', '.join(known)}."
            )
        if missing := known[name].missing_package():
            raise InputError(
                f"System {name} needs the package {missing}; install "
                "requirements-bench.txt, or leave it out of --systems."
            )
    if not any(known[name].translates for name in chosen):
        raise InputError(
            "No system of --systems translates; add ours, for example."
        )
    return {name: known[name] for name in chosen}
