"""Runs of the command that are not the usual one from data to a score."""

import importlib.util
import shutil

import numpy as np
import pytest

from export.translators.translator import Translator
from tests import processes
from tests.export import commands as lines
from tests.trainers import cipher, commands, event_files
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints


@pytest.fixture(scope="module")
def without_test(tmp_path_factory, worker):
    """(folder, result) of a corpus of train alone, averaged at the end."""
    folder = tmp_path_factory.mktemp("without_test")
    cipher.write(folder, splits=("train",))
    arguments = (
        *commands.MINUTE,
        "--dataset=text:toy",
        "--train_steps=9",
        "--checkpoint_steps=2",
        "--keep_checkpoints=2",
        "--average_checkpoints=3",
    )
    return folder, worker.wmt(*arguments, "--model_dir=m", folder=folder)


def test_without_dev_and_test_there_is_no_score_but_a_model(without_test):
    folder, result = without_test
    assert result.code == 0, result.err
    assert "splits train." in result.out
    assert "dev loss" not in result.out
    assert "no test split, so there is no BLEU" in result.out
    assert "Next:" in result.out
    assert not (folder / "m" / "scores.json").exists()
    Translator.from_directory(folder / "m")


def test_the_last_checkpoints_are_averaged(without_test):
    folder, result = without_test
    assert "Averaged the checkpoints of steps 6 8 9\n" in result.out
    # As many are kept as are averaged, though fewer were asked for.
    checkpoints = Checkpoints(folder / "m" / "checkpoints", 3)
    assert checkpoints.steps() == [6, 8, 9]
    arrays = [
        weights_files.of_a_checkpoint(checkpoints.path(step))
        for step in (6, 8, 9)
    ]
    means = [
        np.mean([np.float64(each[name]) for each in arrays], axis=0)
        for name in arrays[0]
    ]
    written = weights_files.of_the_model(folder / "m")
    for mean, actual in zip(
        weights_files.in_order(means), written, strict=True
    ):
        np.testing.assert_allclose(actual, mean, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_minutes_stop_a_training_that_goes_on_later(
    without_test, worker, tmp_path
):
    shutil.copytree(without_test[0], tmp_path, dirs_exist_ok=True)
    # Two updates take longer than 0.6 ms.
    result = worker.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--model_dir=m",
        "--train_steps=1000000",
        "--train_minutes=0.00001",
        "--average_checkpoints=0",
        "--nojit",
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    assert "Resuming from step 9." in result.out
    assert "step 10/1,000,000" in result.out
    steps = Checkpoints(tmp_path / "m" / "checkpoints", 5).steps()
    assert steps == [6, 8, 9, 10]
    before, after = (
        weights_files.arrays(p / "m") for p in (without_test[0], tmp_path)
    )
    assert any(not np.array_equal(before[n], after[n]) for n in before)


@pytest.mark.slow
def test_a_deep_encoder_and_a_shallow_decoder_go_all_the_way(worker, tmp_path):
    """Trained, scored, translated, exported, converted and looked at."""
    cipher.write(tmp_path, splits=("train", "dev", "test"))
    result = worker.wmt(
        *commands.MINUTE,
        "--dataset=text:toy",
        "--model_dir=m",
        "--set=num_layers=3",
        "--set=num_decoder_layers=1",
        "--train_steps=6",
        "--attention_steps=6",
        "--nojit",
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    assert "BLEU" in result.out
    assert event_files.translation_steps(tmp_path / "m/logs/attention") == [6]
    model, export = tmp_path / "m", tmp_path / "exports"
    _do("export.saved_model", f"--model_dir={model}", f"--export_dir={export}")
    texts = [text for text, _ in cipher.sentences(6, seed=3)]
    ours, theirs = (
        lines.run("export.translate", path, texts, "--scores")
        for path in (model, export)
    )
    assert (ours[0], theirs[0]) == (0, 0)
    assert len(set(ours[1])) > 1
    assert theirs[1] == ours[1]
    page = tmp_path / "page.html"
    _do(
        "export.attention",
        *(f"--model={model}", f"--text={texts[0]}", f"--output={page}"),
    )
    about = "m: encoder of 3 layers and decoder of 1 layer with 2 heads"
    assert about in page.read_text("utf-8")
    if importlib.util.find_spec("ctranslate2"):
        (tmp_path / "texts").write_text("".join(f"{each}\n" for each in texts))
        done = _do(
            *("export.ctranslate2", f"--model_dir={model}"),
            f"--output_dir={tmp_path / 'converted'}",
            f"--compare={tmp_path / 'texts'}",
        )
        assert "Compared on 6 sentences" in done.out


def _do(module, *arguments):
    done = processes.run({"module": module}, arguments)
    assert done.code == 0, done.err
    return done


@pytest.mark.slow
def test_two_devices_train_as_one_does(tmp_path):
    """The flags that try replicas without GPUs, from data to dev loss."""
    cipher.write(tmp_path, splits=("train", "dev"))
    arguments = (
        *commands.MINUTE,
        "--dataset=text:toy",
        "--set=dropout=0",
        "--train_steps=12",
    )
    results = [
        commands.wmt(
            *arguments,
            f"--logical_cpus={count}",
            f"--strategy={strategy}",
            f"--model_dir={strategy}",
            f"--attention_steps={attention}",
            folder=tmp_path,
        )
        for count, strategy, attention in ((1, "one", 0), (2, "mirrored", 6))
    ]
    assert [result.code for result in results] == [0, 0]
    assert "on 1 device." in results[0].out
    assert "on 2 devices." in results[1].out
    one, two = (
        dict(event_files.scalars(tmp_path / strategy / "logs/dev")["loss"])
        for strategy in ("one", "mirrored")
    )
    assert one[12] == pytest.approx(two[12], rel=1e-5)
    assert not (tmp_path / "one" / "logs" / "attention").exists()
    logs = tmp_path / "mirrored" / "logs" / "attention"
    assert event_files.translation_steps(logs) == [6, 12]
    one, two = (
        weights_files.arrays(tmp_path / name) for name in ("one", "mirrored")
    )
    for name in one:
        np.testing.assert_allclose(one[name], two[name], atol=1e-4)
