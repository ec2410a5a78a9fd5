"""export.import_marian and export.marian as a user runs them."""

import numpy as np
import pytest
import sacrebleu

from export.model_directory import ModelDirectory
from export.translators.translator import Translator
from tests import processes
from tests.export import commands
from tests.export.pretrained import marian_directory

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
    done = run(
        "export.import_marian",
        f"--hf={marian_folder / 'shared'}",
        f"--model_dir={path}",
    )
    assert (done.code, done.err) == (0, "")
    return path, done


def test_it_writes_a_model_directory(imported):
    path, done = imported
    assert "2 + 1 layers" in done.out
    assert f"--model={path}" in done.out
    assert {each.name for each in path.iterdir()} == {
        "config.json",
        "run.json",
        "vocabulary.model",
        "model.weights.h5",
    }
    assert ModelDirectory(path).read_run()["source_language"] == "eng"
    expected = Translator.from_directory(path).translate(TEXTS)
    code, lines, _ = commands.run("export.translate", path, TEXTS)
    assert code == 0
    assert lines == [each.text for each in expected]


def test_published_translations_are_compared(imported, tmp_path):
    path, _ = imported
    sources = ["vize bo", "ka lo mi", "sa to ru", "ne mi"]
    translations = Translator.from_directory(path).translate(sources)
    ours = [each.text for each in translations]
    theirs = [f"{ours[0]} ", "another one & more", *ours[2:]]
    references = [ours[0], "another one", ours[2], "te la."]
    published = tmp_path / "a.test.txt"
    rows = zip(sources, references, theirs)
    published.write_text("".join("\n".join([*row, "\n"]) for row in rows))
    done = run(
        "export.import_marian", f"--model_dir={path}", f"--check={published}"
    )
    assert (done.code, done.err) == (0, "")
    assert "75.00% (3 of 4)" in done.out
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        our, their = (
            metric.corpus_score([t.strip() for t in texts], [references]).score
            for texts in (ours, theirs)
        )
        expected = f"{our:.2f}, published {their:.2f} ({our - their:+.2f})"
        assert f"imported {expected}" in done.out
    assert f"source     {sources[1]}\n" in done.out
    assert f"published  {theirs[1]}\n" in done.out
    assert sources[0] not in done.out


def test_it_is_exported_and_imported_again(imported, tmp_path):
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


def test_wrong_input_is_refused_and_nothing_written(tmp_path):
    arrays = marian_directory.arrays_of(marian_directory.model())
    options = marian_directory.OPTIONS | {"type": "s2s"}
    folder = marian_directory.write(tmp_path / "in", arrays, options)
    (tmp_path / "taken").mkdir()
    new = f"--model_dir={tmp_path / 'out'}"
    for word, flags in {
        "type": [f"--npz={folder}", new],
        "--hf": [new],
        "--npz": ["--hf=a", "--npz=b", new],
        "decoder.yml": [f"--npz={tmp_path / 'none'}", new],
        "config.json": [f"--hf={folder}", new],
        "taken": [f"--npz={folder}", f"--model_dir={tmp_path / 'taken'}"],
        "none": [f"--check={tmp_path / 'none'}", new],
    }.items():
        done = run("export.import_marian", *flags)
        assert done.code == 2
        (line,) = done.err.splitlines()
        assert word in line
    assert {each.name for each in tmp_path.iterdir()} == {"in", "taken"}


@pytest.mark.slow
def test_it_is_served(imported, tmp_path):
    path, _ = imported
    # It runs export.check, which compares server and model directory.
    done = run(
        "export.saved_model",
        f"--model_dir={path}",
        f"--export_dir={tmp_path / 'e'}",
    )
    assert done.code == 0, done.err


@pytest.mark.slow
def test_fine_tuning_keeps_vocabulary_and_tags(imported, tmp_path):
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
    code, lines, _ = commands.run("export.translate", other.path, TEXTS)
    assert code == 0 and len(lines) == len(TEXTS)
