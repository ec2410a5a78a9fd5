"""Every system that can translate, by its name on the command line."""

import dataclasses
import typing

from benchmarks.decoding import models
from benchmarks.harness.systems import Peer, choose_among, of_backend
from export.command import InputError


@dataclasses.dataclass(frozen=True)
class DecodeSystem(Peer):
    """Where a system is made and what it needs.

    Attributes:
        module: that holds it, under benchmarks.peers.
        packages: that must be installed.
        keras_backend: it runs on, whether or not it uses Keras.
        prepare: function of the model directory (of the beam) and a folder
            to write to; returns the path that the system reads.
        translates: whether it does more than multiply matrices.
        maker: name of the function in the module that makes it of a job:
            with `note` and `translate(batch)`, and with
            `translate_all(batches)` where it takes them all in one call.
    """

    module: str
    packages: tuple[str, ...]
    keras_backend: str
    prepare: typing.Callable = models.as_it_is
    translates: bool = True
    maker: str = "make"


def _of_others(backend):
    return {
        "ctranslate2": DecodeSystem(
            "ctranslate2_translator",
            ("ctranslate2",),
            backend,
            models.ctranslate2,
        ),
        "ctranslate2-side-by-side": DecodeSystem(
            "ctranslate2_translator",
            ("ctranslate2",),
            backend,
            models.ctranslate2,
            maker="make_side_by_side",
        ),
        "ctranslate2-int8": DecodeSystem(
            "ctranslate2_translator",
            ("ctranslate2",),
            backend,
            models.ctranslate2_int8,
        ),
        "transformers": DecodeSystem(
            "decode_marian",
            ("torch", "transformers"),
            "torch",
            models.marian,
        ),
        "products": DecodeSystem(
            "decode_products", (backend,), backend, translates=False
        ),
    }


_ON_BACKEND = {
    "tensorflow": {
        "ours": DecodeSystem(
            "ours_translators", ("tensorflow", "tensorflow_text"), "tensorflow"
        ),
        "ours-finished": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_finished",
        ),
        "ours-side-by-side": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_side_by_side",
        ),
        "ours-finished-side-by-side": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_finished_side_by_side",
        ),
        "ours-compiled": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_compiled",
        ),
        "ours-finished-compiled": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_finished_compiled",
        ),
        "ours-aligned": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_aligned",
        ),
        "ours-n-best": DecodeSystem(
            "ours_translators",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            maker="make_n_best",
        ),
        "ours-served": DecodeSystem(
            "ours_served",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            models.exported,
        ),
        "ours-served-finished": DecodeSystem(
            "ours_served",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            models.exported_finished,
            maker="make_finished",
        ),
        "ours-served-frozen": DecodeSystem(
            "ours_served",
            ("tensorflow", "tensorflow_text"),
            "tensorflow",
            models.exported_finished,
            maker="make_frozen",
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
    return of_backend(_ON_BACKEND, backend)


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
    chosen = choose_among(decode_systems_on(backend), names, backend)
    if not any(system.translates for system in chosen.values()):
        raise InputError(
            "No system of --systems translates; add ours, for example."
        )
    return chosen
