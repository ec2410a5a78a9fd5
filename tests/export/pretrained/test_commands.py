"""export.import_marian and export.marian as a user runs them."""

import runpy
import shutil

import numpy as np
import pytest
import sacrebleu

from export.loading import load_translator
from export.model_directory import ModelDirectory
from tests import processes
from tests.export import commands
from tests.export.pretrained import marian_directory

IMPORT = "export.import_marian"
TEXTS = [">>fra<< ka lo mi.", "vize bo", "", "語 bosato?"]


@pytest.fixture(scope="module")
def imported(marian_folder, tmp_path_factory):
    """The model directory that the command made, and what it printed."""
    path = tmp_path_factory.mktemp("imported") / "runs" / "opus"
    path.parent.mkdir()
    printed, message = commands.output_and_error(
        IMPORT, f"--hf={marian_folder / 'shared'}", f"--model_dir={path}"
    )
    assert message is None
    return path, printed


def test_it_writes_a_model_directory(imported):
    path, printed = imported
    assert "2 + 1 layers" in printed and f"--model={path}" in printed
    assert {each.name for each in path.iterdir()} == {
        "config.json",
        "run.json",
        "vocabulary.model",
        "model.weights.h5",
    }
    assert ModelDirectory(path).read_run()["source_language"] == "eng"


def test_a_test_set_is_compared(imported, tmp_path, eager):
    """As OPUS-MT publishes it, with entities in place of some characters."""
    path = tmp_path / "opus"
    shutil.copytree(imported[0], path)
    directory = ModelDirectory(path)
    directory.write_config(directory.read_config().replace(max_extra_tokens=3))
    sources = ["vize bo", "ka lo mi", "sa to ru", "ne mi"]
    translations = load_translator(path).translate(sources)
    ours = [each.text for each in translations]
    published = [f"{ours[0]} ", "another one & more", *ours[2:]]
    test_set = tmp_path / "a.test.txt"
    rows = zip(sources, ours, published)
    test_set.write_text("".join("\n".join([*row, "\n"]) for row in rows))
    printed, _ = commands.output_and_error(
        IMPORT, f"--model_dir={path}", f"--check={test_set}"
    )
    assert "75.00% (3 of 4)" in printed
    bleu = sacrebleu.corpus_bleu([t.strip() for t in published], [ours]).score
    assert f"BLEU: imported 100.00, published {bleu:.2f}" in printed
    assert f"source     {sources[1]}\n" in printed
    assert f"published  {published[1]}\n" in printed
    assert sources[0] not in printed


def test_test_sets_are_read(tmp_path):
    groups = [("a", "b", "c"), ("d", "e ", "f\u2028g")]
    text = "\n\n".join("\n".join(group) for group in groups)
    path = tmp_path / "a.test.txt"
    with commands.own_flags():
        command = runpy.run_module(IMPORT)
    for end in ("\n\n", "\n", ""):
        path.write_text(text + end, "utf-8")
        read = command["read_test_set"](path)
        assert read == (["a", "d"], ["b", "e "], ["c", "f g"])
    escaped = " &lt;a&gt; &quot;b&apos;s&quot; &amp;lt; "
    assert command["unescape"](escaped) == '<a> "b\'s" &lt;'
    for text in ("", "a\nb\nc\n\nd\n", "a\nb\nc\nd\n", "a\n\nc\n\n"):
        path.write_text(text)
        message = commands.output_and_error(
            IMPORT, f"--model_dir={tmp_path}", f"--check={path}"
        )[1]
        assert "a.test.txt: expected a source" in message


def test_it_is_exported_and_imported_again(imported, tmp_path):
    path, _ = imported
    written, again = tmp_path / "written", tmp_path / "again"
    flags = [f"--model_dir={path}", f"--output_dir={written}"]
    assert commands.output_and_error("export.marian", *flags)[1] is None
    flags = [f"--hf={written}", f"--model_dir={again}"]
    assert commands.output_and_error(IMPORT, *flags)[1] is None
    for ours, published in zip(
        *(ModelDirectory(p).load_model().weights for p in (path, again)),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, published)


def test_wrong_input_is_refused_and_nothing_written(tmp_path):
    options = marian_directory.OPTIONS | {"type": "s2s"}
    arrays = marian_directory.default_arrays()
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
        assert word in commands.output_and_error(IMPORT, *flags)[1]
    assert {each.name for each in tmp_path.iterdir()} == {"in", "taken"}


@pytest.mark.slow
def test_it_is_served_and_fine_tuned(imported, tmp_path):
    path, _ = imported
    for name, lines in {
        "c.train.eng": [">>fra<< ka lo", "mi ne ru", "sa to"] * 20,
        "c.train.fra": ["lo ka", "ru ne mi", "to sa"] * 20,
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    for module, flags in {
        # It runs export.check, which compares server and model directory.
        "export.saved_model": f"--model_dir={path} --export_dir={tmp_path}/e",
        "trainers.wmt": f"--init_from={path} --dataset=text:{tmp_path}/c "
        f"--source_language=eng --target_language=fra "
        f"--model_dir={tmp_path}/tuned --train_steps=20 --batch_tokens=128 "
        "--set=warmup_steps=10 --set=average_checkpoints=0 "
        "--attention_steps=0",
    }.items():
        done = processes.run({"module": module}, flags.split())
        assert done.code == 0, done.err
    one, other = ModelDirectory(path), ModelDirectory(tmp_path / "tuned")
    assert one.read_vocabulary() == other.read_vocabulary()
    ours, tuned = one.read_config(), other.read_config()
    assert ours.architecture() == tuned.architecture()
    assert len(load_translator(other.path).translate(TEXTS)) == 4
