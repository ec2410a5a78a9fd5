"""Writes the other files of this folder, by the code of b2571a0 alone.

In a checkout of that commit: `PYTHONPATH=. python FOLDER/make.py`. By today's
code the files would prove nothing.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from xml.etree import ElementTree

import keras
import numpy as np

import keras_transformer as kt
from export.model_directory import ModelDirectory
from tests import made_up_text
from tests.export import tiny

HERE = pathlib.Path(__file__).parent
COMMANDS = [
    *(f"export.{name}" for name in ("attention", "check", "client")),
    *(f"export.{name}" for name in ("ctranslate2", "sample", "saved_model")),
    *(f"export.{name}" for name in ("score", "translate")),
    *(f"trainers.{name}" for name in ("evaluate", "prepare", "results")),
    *(f"trainers.{name}" for name in ("table3", "wmt")),
]
TEXTS = [*made_up_text.sentences()[:4], "", "Xylo 7 ba"]
SEARCH = ["--beam_size=4", "--alpha=0.8", "--max_extra=3"]
RUNS = [
    ("model", ["--scores", "--alignments", *SEARCH]),
    ("model", ["--n_best=4", *SEARCH]),
    ("model", ["--scores", "--min_length=6", "--stop=finished"]),
    ("export", ["--scores", "--alignments"]),
    ("export/1", ["--n_best=4"]),
]
SIZES = {"vocabulary_size": 32, "num_layers": 1, "d_model": 8}
IDS = {
    "source": [[5, 9, 31, 3, 0], [7, 3, 0, 0, 0]],
    "target": [[2, 6, 8, 30], [2, 11, 0, 0]],
}


def command(module, *arguments, text=None):
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=text,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(pathlib.Path.cwd())},
    )
    assert text is None or not done.returncode, (module, done.returncode)
    return done.stdout.splitlines()


def flags_of(module):
    """The flags of our own modules: type, and values where these are few."""
    top = ElementTree.fromstringlist(command(module, "--helpxml"))
    found = {}
    for flag in top.iter("flag"):
        if flag.findtext("file").startswith(("export.", "trainers.", "/")):
            values = [each.text for each in flag.iter("enum_value")]
            found[flag.findtext("name")] = [flag.findtext("type"), values]
    return found


def users_models():
    """Three that Keras saves: ours, one with ours in it, one of layers."""
    ids = {name: keras.Input((None,), dtype="int32", name=name) for name in IDS}
    ours = tiny.model(**SIZES, share_embeddings="all", norm="post")
    inside = tiny.model(**SIZES, positions="learned", max_positions=16)
    states = kt.SharedEmbedding(32, 8, mask_zero=True)(ids["source"])
    states = kt.LearnedPositionEmbedding(16)(states)
    memory = kt.EncoderLayer(inside.config)(states)
    memory = kt.PositionwiseFeedForward(8, 16)(memory)
    memory = kt.Encoder(inside.config)(memory)
    states = kt.SharedEmbedding(32, 8)(ids["target"])
    states = kt.SinusoidalPositionEncoding()(states)
    states = kt.DecoderLayer(inside.config)(states, memory)
    states = kt.Decoder(inside.config)(states, memory)
    logits = keras.layers.Dense(32)(states)
    halves = keras.layers.Rescaling(0.5)(inside(ids))
    return {
        "model": ours,
        "model_inside": keras.Model(ids, halves),
        "model_of_layers": keras.Model(ids, logits),
    }


def save_users_models(folder):
    """After an update of each; returns what they answer."""
    answers = {}
    inputs = {name: np.array(rows) for name, rows in IDS.items()}
    for name, model in users_models().items():
        schedule = kt.Cooldown(kt.TransformerSchedule(8, 10), 20, 5)
        loss = kt.LabelSmoothedCrossEntropy(0.1)
        model.compile(keras.optimizers.Adam(schedule), loss)
        model.train_on_batch(inputs, inputs["target"])
        model.save(folder / f"{name}.keras")
        outputs = keras.ops.convert_to_numpy(model(inputs))
        answers[name] = outputs.astype("float64").round(7).tolist()
    return answers


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = tiny.model(num_layers=1)
        directory = ModelDirectory(folder / "model")
        directory.write_config(model.config)
        directory.write_run({"dataset": "made up"})
        directory.write_vocabulary(made_up_text.vocabulary())
        directory.write_weights(model)
        command(
            "export.saved_model",
            *(f"--model_dir={folder / 'model'}", "--max_source_tokens=64"),
            *(f"--export_dir={folder / 'export'}", "--max_output_extra=5"),
            "--nocheck",
            text="",
        )
        runs = []
        for of, flags in RUNS:
            lines = command(
                "export.translate",
                *(f"--model={folder / of}", *flags),
                text="".join(f"{text}\n" for text in TEXTS),
            )
            runs.append({"model": of, "flags": flags, "lines": lines})
        archives = save_users_models(folder)
        with tarfile.open(HERE / "files.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)
    names = {
        "all": sorted(kt.__all__),
        "commands": {module: flags_of(module) for module in COMMANDS},
    }
    answers = {"texts": TEXTS, "runs": runs, "ids": IDS, "keras": archives}
    for name, content in {"names": names, "answers": answers}.items():
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
