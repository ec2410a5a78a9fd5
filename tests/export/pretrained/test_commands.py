"""export.import_marian and export.marian as a user runs them."""

import json
import re
import shutil

import numpy as np
import pytest

from export.model_directory import ModelDirectory
from export.translators.translator import Translator
from tests import processes
from tests.export import commands

TEXTS = [">>fra<< ka lo mi.", "vize bo", "", "語 bosato?"]


def run(module, *flags):
    return processes.run(
        {"module": module},
        [str(flag) for flag in flags],
        environment=commands.environment(),
        modules=processes.WITH_TENSORFLOW,
    )


@pytest.fixture(scope="module")
def imported(marian_folder, tmp_path_factory):
    """The model directory that the command made, and its process."""
    path = tmp_path_factory.mktemp("imported") / "runs" / "opus"
    path.parent.mkdir()
    published = path.parent / "a.test.txt"
    published.write_text(f"{TEXTS[1]}\na reference\nno such output\n\n")
    done = run(
        "export.import_marian",
        f"--hf={marian_folder / 'shared'}",
        f"--model_dir={path}",
        f"--check={published}",
    )
    assert (done.code, done.err) == (0, "")
    return path, done


def test_it_says_what_is_there_and_what_next(imported):
    path, done = imported
    assert "2 + 1 layers" in done.out
    assert f"--model={path}" in done.out
    assert "0.00% (0 of 1)" in done.out
    assert {each.name for each in path.iterdir()} == {
        "config.json",
        "run.json",
        "vocabulary.model",
        "model.weights.h5",
    }
    assert ModelDirectory(path).read_run()["source_language"] == "eng"


def test_it_translates_with_tags_in_the_text(imported):
    path, _ = imported
    expected = Translator.from_directory(path).translate(TEXTS)
    code, lines, _ = commands.run("export.translate", path, TEXTS)
    assert code == 0
    assert lines == [each.text for each in expected]


def test_it_goes_back(imported, marian_folder, tmp_path):
    path, _ = imported
    done = run(
        "export.marian", f"--model_dir={path}", f"--output_dir={tmp_path / 'b'}"
    )
    assert (done.code, done.err) == (0, "")
    again = run(
        "export.import_marian",
        f"--hf={tmp_path / 'b'}",
        f"--model_dir={tmp_path / 'm'}",
    )
    assert again.code == 0
    one, other = (
        ModelDirectory(each).load_model().get_weights()
        for each in (path, tmp_path / "m")
    )
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_it_is_exported_served_and_converted(imported, tmp_path):
    path, _ = imported
    # It runs export.check, which compares server and model directory.
    done = run(
        "export.saved_model",
        f"--model_dir={path}",
        f"--export_dir={tmp_path / 'e'}",
    )
    assert done.code == 0, done.err
    code, lines, _ = commands.run(
        "export.translate", tmp_path / "e" / "1", TEXTS
    )
    assert code == 0
    assert lines == [
        each.text for each in Translator.from_directory(path).translate(TEXTS)
    ]
    # CTranslate2 ends a search in another way than Hugging Face's.
    copy = ModelDirectory(tmp_path / "copy")
    shutil.copytree(path, copy.path)
    copy.write_config(copy.read_config().replace(stop="k_finished"))
    text = tmp_path / "text"
    text.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    done = run(
        "export.ctranslate2",
        f"--model_dir={copy.path}",
        f"--output_dir={tmp_path / 'c'}",
        f"--compare={text}",
    )
    assert done.code == 0, done.err
    # Random weights leave ties that the two searches settle otherwise; the
    # scores of what both find tell whether it is the same model.
    share = re.search(r"identical translations +([\d.]+)%", done.out)
    assert float(share[1]) >= 50
    largest = re.search(r"largest (\S+) where identical", done.out)
    assert float(largest[1]) < 1e-4


@pytest.mark.slow
def test_training_goes_on_with_its_vocabulary_and_tags(imported, tmp_path):
    path, _ = imported
    for name, lines in {
        "c.train.eng": [">>fra<< ka lo", "mi ne ru", "sa to"] * 20,
        "c.train.fra": ["lo ka", "ru ne mi", "to sa"] * 20,
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    done = run(
        "trainers.wmt",
        f"--init_from={path}",
        f"--dataset=text:{tmp_path / 'c'}",
        "--source_language=eng",
        "--target_language=fra",
        f"--model_dir={tmp_path / 'tuned'}",
        "--train_steps=20",
        "--batch_tokens=128",
        "--set=warmup_steps=10",
        "--set=average_checkpoints=0",
        "--attention_steps=0",
    )
    assert done.code == 0, done.err
    one, other = ModelDirectory(path), ModelDirectory(tmp_path / "tuned")
    assert one.read_vocabulary() == other.read_vocabulary()
    assert (
        one.read_config().architecture() == other.read_config().architecture()
    )
    assert json.loads((tmp_path / "tuned" / "run.json").read_text())
    code, lines, _ = commands.run("export.translate", other.path, TEXTS)
    assert code == 0 and len(lines) == len(TEXTS)
