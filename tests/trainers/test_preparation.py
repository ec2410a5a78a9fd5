import dataclasses

import numpy as np
import pytest

from export.errors import InputError
from export.model_directory import ModelDirectory
from tests.trainers import cipher
from tests.trainers.helpers import minute_config
from trainers.corpora import open_corpus
from trainers.preparation import prepare
from trainers.training_plan import TrainingPlan

PLAN = TrainingPlan(
    strategy="one",
    precision="float32",
    jit=False,
    seed=1,
    max_tokens=100,
    shapes=3,
    train_minutes=0,
    report_steps=100,
    dev_steps=100,
    checkpoint_steps=0,
    checkpoint_minutes=0,
    keep_checkpoints=5,
)
CONFIG = minute_config(vocabulary_size=64)


def _plan(**changes):
    return dataclasses.replace(PLAN, **changes)


def _open(folder, name="toy"):
    return open_corpus(f"text:{folder / name}", cipher.SOURCE, cipher.TARGET)


@pytest.fixture
def corpus(tmp_path):
    cipher.write(tmp_path)
    return _open(tmp_path)


@pytest.fixture
def directory(tmp_path):
    return ModelDirectory(tmp_path / "runs" / "model")


def _contents(directory):
    return {
        path.name: path.read_bytes()
        for path in directory.path.rglob("*")
        if path.is_file()
    }


def test_everything_training_needs(corpus, directory):
    prepared = prepare(directory, CONFIG, corpus, PLAN)
    assert prepared.config == directory.read_config() == CONFIG
    assert (len(prepared.training), len(prepared.dev)) == (200, 12)
    assert prepared.tokenizer.vocabulary_size == 64
    first = slice(*prepared.training.target_starts[:2])
    ids = prepared.training.target[first]
    text = next(corpus.pairs("train"))[1]
    assert prepared.tokenizer.decode([ids]) == [text]
    facts = {
        "dataset": corpus.name,
        "source_language": "en",
        "target_language": "xx",
        "fingerprint": corpus.fingerprint(),
        "seed": 1,
        "max_tokens": 100,
    }
    assert facts.items() <= directory.read_run().items()


def test_a_corpus_without_dev(tmp_path, directory):
    cipher.write(tmp_path, splits=("train",))
    assert prepare(directory, CONFIG, _open(tmp_path), PLAN).dev is None


def test_the_second_time_finds_the_same(corpus, directory):
    one = prepare(directory, CONFIG, corpus, PLAN)
    before = _contents(directory)
    other = prepare(directory, CONFIG, corpus, PLAN)
    assert _contents(directory) == before
    for name in ("source", "source_starts", "target", "target_starts"):
        assert np.array_equal(
            getattr(one.training, name), getattr(other.training, name)
        )


def test_too_long_pairs_are_left_out_and_told(corpus, directory, capsys):
    prepared = prepare(directory, CONFIG, corpus, _plan(max_tokens=5))
    lengths = [
        prepared.training.source_lengths,
        prepared.training.target_lengths,
    ]
    assert np.max(lengths) == 5
    dropped = prepared.training.dropped
    assert 0 < dropped < 200
    assert len(prepared.training) + dropped == 200
    assert f"{dropped} too long" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [
        {"train_steps": 7},
        {"average_checkpoints": 3},
        {"beam_size": 9},
        {"alpha": 0.1},
        {"max_output_extra": 1},
    ],
)
def test_how_long_to_train_and_how_to_decode_may_change(
    corpus, directory, changes
):
    prepare(directory, CONFIG, corpus, PLAN)
    config = CONFIG.replace(**changes)
    prepare(directory, config, corpus, PLAN)
    assert directory.read_config() == config


@pytest.mark.parametrize(
    ("changes", "plan_changes", "message"),
    [
        ({"d_ff": 13}, {}, "d_ff=12, not 13"),
        ({"vocabulary_size": 60}, {}, "vocabulary_size=64, not 60"),
        ({"batch_tokens": 65}, {}, "batch_tokens=64, not 65"),
        ({}, {"seed": 2}, "seed=1, not 2"),
        ({}, {"max_tokens": 99}, "max_tokens=100, not 99"),
        # It decides which pairs make up which batch, so a training that goes
        # on would see some pairs twice and miss others.
        ({}, {"shapes": 4}, "shapes=3, not 4"),
    ],
)
def test_another_training_is_refused_and_nothing_overwritten(
    corpus, directory, changes, plan_changes, message
):
    prepare(directory, CONFIG, corpus, PLAN)
    before = _contents(directory)
    config, plan = CONFIG.replace(**changes), _plan(**plan_changes)
    with pytest.raises(InputError, match=message) as caught:
        prepare(directory, config, corpus, plan)
    assert str(directory.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert _contents(directory) == before


def test_other_data_are_refused(tmp_path, corpus, directory):
    prepare(directory, CONFIG, corpus, PLAN)
    before = _contents(directory)
    swapped = open_corpus(corpus.name, cipher.TARGET, cipher.SOURCE)
    with pytest.raises(InputError, match="source_language=en, not xx"):
        prepare(directory, CONFIG, swapped, PLAN)
    cipher.write(tmp_path, "other")
    with pytest.raises(InputError, match="dataset=text:.*toy, not .*other"):
        prepare(directory, CONFIG, _open(tmp_path, "other"), PLAN)
    cipher.write_split(tmp_path, "toy.train", ["new"], ["wrt"])
    with pytest.raises(InputError, match="fingerprint="):
        prepare(directory, CONFIG, _open(tmp_path), PLAN)
    assert _contents(directory) == before


def test_a_vocabulary_already_there_is_used(corpus, directory):
    prepare(directory, CONFIG, corpus, PLAN)
    directory.config_path.unlink()
    directory.run_path.unlink()
    with pytest.raises(InputError, match="has 64 pieces, not .*=60"):
        prepare(directory, minute_config(vocabulary_size=60), corpus, PLAN)
    before = directory.read_vocabulary()
    prepare(directory, CONFIG, corpus, PLAN)
    assert directory.read_vocabulary() == before


def test_a_vocabulary_that_is_none_is_refused(corpus, directory):
    directory.path.mkdir(parents=True)
    directory.vocabulary_path.write_bytes(b"not a vocabulary")
    with pytest.raises(InputError, match="vocabulary.model"):
        prepare(directory, CONFIG, corpus, PLAN)


def test_a_config_that_is_none_is_refused(corpus, directory):
    directory.path.mkdir(parents=True)
    directory.config_path.write_text("{")
    with pytest.raises(InputError, match="config.json is not a config"):
        prepare(directory, CONFIG, corpus, PLAN)


def test_killed_between_two_writes_the_same_command_goes_on(
    corpus, directory, monkeypatch
):
    """A power cut, say: whatever order the files are written in."""

    class Killed(BaseException):
        pass

    writes = ("write_vocabulary", "write_config", "write_run")
    for write in writes:
        with monkeypatch.context() as patch:

            def killed(*arguments):
                raise Killed

            patch.setattr(directory, write, killed)
            with pytest.raises(Killed):
                prepare(directory, CONFIG, corpus, PLAN)
        assert len(prepare(directory, CONFIG, corpus, PLAN).training) == 200
        for path in directory.path.iterdir():
            path.unlink()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_broken_split_leaves_nothing(tmp_path, directory, split):
    cipher.write(tmp_path)
    cipher.write_split(tmp_path, f"toy.{split}", ["ba", "do"], ["yz"])
    with pytest.raises(InputError, match=f"^Files .*toy.{split}.en has 2"):
        prepare(directory, CONFIG, _open(tmp_path), PLAN)
    assert not directory.path.exists()


def test_a_limit_that_leaves_no_pair_leaves_no_directory(corpus, directory):
    with pytest.raises(InputError, match="No sentence pair is left"):
        prepare(directory, CONFIG, corpus, _plan(max_tokens=1))
    assert not directory.path.exists()
    assert prepare(directory, CONFIG, corpus, PLAN)
