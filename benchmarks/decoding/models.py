"""The model as each system wants it: made once, before any is started."""

import json
import pathlib
import subprocess
import sys

import numpy as np

from export.command import InputError

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
    if versions.exists():
        return versions / "1"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "export.saved_model", "--nocheck"),
            f"--model_dir={model_dir}",
            f"--export_dir={versions}",
            f"--stop={stop}",
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
    from benchmarks.decoding.marian_weights import marian_arrays

    path = folder / "marian.npz"
    if not path.exists():
        np.savez(path, **marian_arrays(load(model_dir)))
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
