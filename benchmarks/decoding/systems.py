"""Every system that can translate, and the model as each wants it."""

import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
import typing

import numpy as np

from benchmarks.harness.systems import System, select_systems
from export.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
_LAST_LINES = 15


def with_beam(model_dir, beam_size, folder):
    """Returns a model directory of the same weights with another beam.

    Args:
        model_dir: path of the model directory.
        beam_size: K.
        folder: pathlib.Path where it is made.
    """
    source = pathlib.Path(model_dir).resolve()
    path = folder / f"beam{beam_size}"
    path.mkdir()
    fields = json.loads((source / "config.json").read_text(encoding="utf-8"))
    fields["beam_size"] = beam_size
    (path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    for name in ("vocabulary.model", "model.weights.h5"):
        (path / name).symlink_to(source / name)
    return path


def as_it_is(model_dir, folder):
    """For systems that read a model directory."""
    del folder
    return model_dir


def exported(model_dir, folder):
    """Returns the folder of an exported version."""
    return _exported(model_dir, folder, "certain")


def exported_finished(model_dir, folder):
    """The same, stopping with the K-th finished hypothesis."""
    return _exported(model_dir, folder, "finished")


def _exported(model_dir, folder, stop):
    versions = folder / f"{model_dir.name}-exported-{stop}"
    return export_saved_model(model_dir, versions, f"--stop={stop}")


def export_saved_model(model_dir, versions, *options):
    """Returns the folder of an exported version, made where there is none.

    Args:
        model_dir: path of the model directory.
        versions: pathlib.Path of the folder with the versions.
        *options: further ones of export.saved_model.

    Raises:
        InputError: the export failed.
    """
    if versions.exists():
        return versions / "1"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "export.saved_model", "--nocheck"),
            f"--model_dir={model_dir}",
            f"--export_dir={versions}",
            *options,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.splitlines()[-_LAST_LINES:]
        raise InputError("\n".join(["The export failed:", *lines]))
    return versions / "1"


def ctranslate2(model_dir, folder):
    """Returns a folder for CTranslate2, float32."""
    return _ctranslate2(model_dir, folder, "float32")


def ctranslate2_int8(model_dir, folder):
    """Returns a folder for CTranslate2, int8."""
    return _ctranslate2(model_dir, folder, "int8")


def _ctranslate2(model_dir, folder, quantization):
    from export.conversion.ctranslate2_weights import save_ctranslate2

    path = folder / f"ctranslate2-{quantization}"
    if not path.exists():
        vocabulary = (model_dir / "vocabulary.model").read_bytes()
        save_ctranslate2(load(model_dir), vocabulary, path, quantization)
    return path


def marian(model_dir, folder):
    """Returns a file of arrays by their names in MarianMTModel."""
    from benchmarks.decoding.marian_weights import marian_state_dict

    path = folder / "marian.npz"
    if not path.exists():
        np.savez(path, **marian_state_dict(load(model_dir)))
    return path


def load(model_dir, dtype="float32"):
    """Returns the Transformer; unlike ModelDirectory, without TensorFlow.

    Args:
        model_dir: path of a model directory.
        dtype: a Keras dtype policy.
    """
    import keras_transformer as kt

    path = pathlib.Path(model_dir)
    text = (path / "config.json").read_text(encoding="utf-8")
    model = kt.Transformer(kt.TransformerConfig.from_json(text), dtype=dtype)
    model.load_weights(path / "model.weights.h5")
    return model


@dataclasses.dataclass(frozen=True)
class DecodeSystem(System):
    """A System of DecodeJobs.

    Its peer has `translate(batch)`, and `translate_all(batches)` where it
    takes them all in one call.

    Attributes:
        prepare: function of the model directory (of the beam) and a folder
            to write to; returns the path that the system reads.
        translates: whether it does more than multiply matrices.
    """

    prepare: typing.Callable = as_it_is
    translates: bool = True


_ours = functools.partial(DecodeSystem, packages="tensorflow_text")
_served = functools.partial(_ours, prepare=exported_finished)
_ct2 = functools.partial(
    DecodeSystem, packages="ctranslate2", prepare=ctranslate2
)
_floor = functools.partial(DecodeSystem, translates=False)
_OTHERS = {
    "ctranslate2": _ct2("ctranslate2_translator:CTranslate2"),
    "ctranslate2-side-by-side": _ct2("ctranslate2_translator:SideBySide"),
    "ctranslate2-int8": _ct2(
        "ctranslate2_translator:CTranslate2", prepare=ctranslate2_int8
    ),
    "transformers": DecodeSystem(
        "marian:Translator", "transformers", "torch", prepare=marian
    ),
    "products": _floor("products:of_decoding"),
}
SYSTEMS = {
    "tensorflow": {
        "ours": _ours("ours_translators:certain"),
        "ours-finished": _ours("ours_translators:finished"),
        "ours-side-by-side": _ours("ours_translators:certain_side_by_side"),
        "ours-finished-side-by-side": _ours(
            "ours_translators:finished_side_by_side"
        ),
        "ours-compiled": _ours("ours_translators:certain_compiled"),
        "ours-finished-compiled": _ours("ours_translators:finished_compiled"),
        "ours-aligned": _ours("ours_translators:aligned"),
        "ours-n-best": _ours("ours_translators:n_best"),
        "ours-served": _ours("ours_served:certain", prepare=exported),
        "ours-served-finished": _served("ours_served:finished"),
        "ours-served-frozen": _served("ours_served:frozen"),
        **_OTHERS,
        "products-xla": _floor("products:of_decoding_by_xla"),
    },
    "jax": {"ours": DecodeSystem("ours_jax:Search"), **_OTHERS},
}


def select_decoders(backend, names):
    """Returns the systems to time, in the order of the names.

    Args:
        backend: of Keras; "tensorflow" or "jax".
        names: of systems; none for all whose packages are installed.

    Returns:
        Dict of name to DecodeSystem.

    Raises:
        InputError: as of `select_systems`, or nothing is there that translates.
    """
    chosen = select_systems(SYSTEMS, backend, names)
    if not any(system.translates for system in chosen.values()):
        raise InputError(
            "No system of --systems translates; add ours, for example."
        )
    return chosen
