"""What commit b2571a0 wrote is read by today's code; see the data's README."""

import json
import pathlib
import subprocess
import sys
import tarfile
from xml.etree import ElementTree

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests import processes
from tests.export import commands

DATA = pathlib.Path(__file__).parents[1] / "data" / "before_rooms"
ANSWERS = json.loads((DATA / "answers.json").read_text("utf-8"))
NAMES = json.loads((DATA / "names.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of all that is in the archive."""
    folder = tmp_path_factory.mktemp("before_rooms")
    with tarfile.open(DATA / "files.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def named(run):
    return " ".join([run["model"], *run["flags"]])


def parted(lines, flags):
    """Returns what is equal in every run, and the scores."""
    if "--scores" in flags:
        fields = [line.split("\t") for line in lines]
        return [each[1:] for each in fields], [each[0] for each in fields]
    fields = [line.rsplit(" ||| ", 1) for line in lines]
    return [each[0] for each in fields], [each[1] for each in fields]


@pytest.mark.parametrize("run", ANSWERS["runs"], ids=named)
def test_old_models_and_exports_translate_as_they_did(files, run):
    code, lines, notes = commands.run(
        "export.translate",
        files / run["model"],
        ANSWERS["texts"],
        *run["flags"],
    )
    if "--alignments" in run["flags"] and run["model"] != "model":
        assert code == 2
        assert "does not tell the words of its alignments" in notes[0]
        return
    assert code == 0, notes
    texts, scores = parted(lines, run["flags"])
    old_texts, old_scores = parted(run["lines"], run["flags"])
    assert texts == old_texts
    np.testing.assert_allclose(
        np.array(scores, float), np.array(old_scores, float), rtol=1e-4
    )


@pytest.mark.slow
def test_an_old_export_must_be_made_again(files):
    """It gives pieces alone, which do not tell the words of a text."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "export.check", str(files / "export")),
            f"--model_dir={files / 'model'}",
        ],
        cwd=processes.ROOT,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "The export does not tell the words" in done.stderr


@pytest.mark.parametrize("name", ANSWERS["keras"])
def test_old_keras_archives_answer_as_they_did(files, name):
    model = keras.models.load_model(files / f"{name}.keras")
    inputs = {key: np.array(rows) for key, rows in ANSWERS["ids"].items()}
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(model(inputs)),
        np.array(ANSWERS["keras"][name]),
        rtol=1e-4,
        atol=1e-5,
    )
    schedule = model.optimizer.get_config()["learning_rate"]
    assert schedule["registered_name"] == "keras_transformer>Cooldown"
    assert type(model.loss) is kt.LabelSmoothedCrossEntropy
    model.train_on_batch(inputs, inputs["target"])
    assert int(model.optimizer.iterations) == 2


def test_every_old_name_is_there():
    missing = [name for name in NAMES["all"] if not hasattr(kt, name)]
    assert not missing


@pytest.mark.parametrize("module", NAMES["commands"])
def test_every_old_flag_is_accepted(module):
    done = processes.run({"module": module}, ["--helpxml"])
    found = {}
    for flag in ElementTree.fromstring(done.out).iter("flag"):
        values = [each.text for each in flag.iter("enum_value")]
        found[flag.findtext("name")] = flag.findtext("type"), values
    for name, (kind, values) in NAMES["commands"][module].items():
        assert name in found, f"--{name}"
        assert found[name][0] == kind, f"--{name}"
        assert set(values) <= set(found[name][1]), f"--{name}"
