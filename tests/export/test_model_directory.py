"""The model directory: what comes back, and what is refused."""

import shutil

import numpy as np
import pytest

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from tests import damage, made_up_text
from tests.export import tiny
from tests.export.server import Server

NOT_UTF8 = b'{"a": "\xff"}'
NOT_JSON = b'{"vocabulary_size": 200'


@pytest.fixture
def directory(model_path, tmp_path):
    """A copy that a test may break."""
    return ModelDirectory(shutil.copytree(model_path, tmp_path / "m"))


@pytest.fixture
def empty(tmp_path):
    return ModelDirectory(tmp_path / "nothing")


def refused(action, path):
    """Returns the message of an InputError that names the file."""
    with pytest.raises(InputError) as caught:
        action()
    message = str(caught.value)
    assert str(path) in message
    return message


def names(directory):
    return {path.name for path in directory.path.iterdir()}


def test_what_is_written_comes_back(empty):
    assert empty.read_scores() == []
    assert not empty.path.exists()
    config = tiny.config(dropout=0.25, norm="pre", length_penalty="power")
    run = {"dataset": "caf\u00e9 \u6f22", "seed": 3, "more": [1, None, 0.5]}
    scores = [{"bleu": 27.3, "data": "wmt\u00e9"}, {"bleu": 28.4}]
    empty.write_config(config)
    empty.write_run(run)
    empty.write_scores(scores)
    empty.write_vocabulary(made_up_text.vocabulary())
    assert empty.read_config() == config
    assert empty.read_run() == run
    assert empty.read_scores() == scores
    assert empty.read_vocabulary() == made_up_text.vocabulary()
    assert empty.load_tokenizer().vocabulary_size == 200


def test_text_has_one_vocabulary_for_both_languages(empty):
    empty.write_config(tiny.config(source_vocabulary_size=200))
    empty.write_vocabulary(made_up_text.vocabulary())
    refused(empty.load_tokenizer, empty.config_path)


def test_weights_come_back(empty):
    model = tiny.model()
    empty.write_config(model.config)
    empty.write_weights(model)
    loaded = empty.load_model()
    assert loaded.config == model.config
    mixed = empty.load_model("mixed_bfloat16")
    assert mixed.dtype_policy.name == "mixed_bfloat16"
    for one, other, third in zip(
        loaded.weights, model.weights, mixed.weights, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_array_equal(third.numpy(), other.numpy())


def test_a_missing_file_or_a_folder_of_its_name_is_refused(directory, empty):
    for name, reads in (
        ("model.weights.h5", ["load_model"]),
        ("vocabulary.model", ["read_vocabulary", "load_tokenizer"]),
        ("run.json", ["read_run"]),
        ("config.json", ["read_config", "load_model"]),
    ):
        path = directory.path / name
        path.unlink()
        for read in reads:
            refused(getattr(directory, read), path)
            refused(getattr(empty, read), empty.path)
        path.mkdir()
        for read in reads:
            refused(getattr(directory, read), path)


def test_damaged_files_are_named_and_kept(directory):
    vocabulary = directory.read_vocabulary()
    deep = b"[" * 200_000
    no_field = b'{"vocabulary_size": 200, "n_layers": 6}'
    no_number = b'{"vocabulary_size": 200, "dropout": 1' + b"0" * 400 + b"}"
    for path, read, contents in (
        (directory.run_path, directory.read_run, (b"", NOT_JSON, NOT_UTF8)),
        (directory.scores_path, directory.read_scores, (b"", NOT_JSON, b"3")),
        (
            directory.config_path,
            directory.read_config,
            (b"\x00", NOT_JSON, NOT_UTF8, b"[]", deep, no_number, no_field),
        ),
        (
            directory.vocabulary_path,
            directory.load_tokenizer,
            # The last is a model, of fewer tokens.
            (b"", vocabulary[:-1], made_up_text.vocabulary(100)),
        ),
    ):
        before = path.read_bytes() if path.exists() else None
        for content in contents:
            path.write_bytes(content)
            refused(read, path)
            assert path.read_bytes() == content
        if before is not None:
            path.write_bytes(before)
    directory.config_path.write_bytes(no_field)
    message = refused(directory.read_config, directory.config_path)
    assert "num_layers" in message


def test_damaged_weights_are_named(directory):
    weights = directory.weights_path.read_bytes()
    for content in (
        b"\x80\x04K\x01." * 1000,
        *(weights[: int(part * len(weights))] for part in (0.0, 0.5, 0.99)),
    ):
        directory.weights_path.write_bytes(content)
        refused(directory.load_model, directory.weights_path)
    # Where the file keeps its names and offsets; numbers have no checksum.
    for position in range(40, 4000, 1500):
        directory.weights_path.write_bytes(weights)
        damage.flip_bit(directory.weights_path, position)
        try:
            directory.load_model()
        except InputError as error:
            assert str(directory.weights_path) in str(error)


def test_weights_of_another_model_are_named(directory):
    for changes in (
        {"d_model": 8},
        {"num_layers": 2},
        {"share_embeddings": "all", "num_layers": 1},
    ):
        directory.write_config(tiny.config(**changes))
        message = refused(directory.load_model, directory.weights_path)
        assert str(directory.config_path) in message


def test_a_really_full_disk_leaves_what_was_there(small_disk):
    directory = ModelDirectory(small_disk / "m")
    directory.write_run({"seed": 1})
    # HDF5 keeps a file open that it could not write, and complains again
    # when Python collects it: not in this process.
    with Server() as process:
        message = process.call(tiny.refusal_of_large_weights, directory.path)
    assert "No space left on device" in message and "\n" not in message
    assert str(directory.weights_path) in message
    assert names(directory) == {"run.json"}
