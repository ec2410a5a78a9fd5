import dataclasses
import json

import numpy as np
import pytest

from export.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.tokenizer import Tokenizer
from tests.trainers.helpers import minute_config
from tests.trainers.prepared.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    rows,
    splits,
)
from trainers import preparation
from trainers.preparation import claim, refuse_other_training
from trainers.training_plan import TrainingPlan

PLAN = TrainingPlan(
    precision="float32",
    jit=False,
    seed=1,
    max_tokens=100,
    batching="length",
    shapes=3,
    row_tokens=128,
    accumulate=1,
    ema=0.0,
    train_minutes=0,
    patience=0,
    report_steps=100,
    dev_steps=100,
    checkpoint_steps=0,
    checkpoint_minutes=0,
    keep_checkpoints=5,
)
CONFIG = minute_config(vocabulary_size=64)


def _plan(**changes):
    return dataclasses.replace(PLAN, **changes)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Prepared data, which no test may change."""
    folder = tmp_path_factory.mktemp("corpus") / "data"
    return prepare(folder, MemoryCorpus(splits(), name="text:toy"))


@pytest.fixture
def directory(tmp_path):
    return ModelDirectory(tmp_path / "runs" / "model")


@pytest.fixture
def claimed(directory, corpus):
    """A directory that a training has begun in."""
    claim(directory, CONFIG, corpus, PLAN)
    return directory


def _assert_refused(match, action, *arguments):
    with pytest.raises(InputError, match=match) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_everything_training_needs(corpus, directory):
    prepared = preparation.prepare(directory, CONFIG, corpus, PLAN)
    assert prepared.directory is directory
    assert prepared.config == CONFIG
    assert prepared.dataset == "text:toy"
    assert (len(prepared.training), len(prepared.dev)) == (40, 9)
    ids = prepared.training.targets(np.array([0]))
    tokenizer = Tokenizer(corpus.vocabulary)
    assert tokenizer.decode([ids]) == [splits()["train"][0][1][0]]
    assert prepared.test.sources == tuple(s for s, _ in splits()["test"])


def test_it_writes_nothing(corpus, directory, tmp_path):
    preparation.prepare(directory, CONFIG, corpus, PLAN)
    assert contents(tmp_path) == {}
    assert not directory.path.exists()


def test_claimed_the_directory_says_what_it_is(corpus, claimed):
    assert set(contents(claimed.path)) == {
        "config.json",
        "run.json",
        "vocabulary.model",
    }
    assert claimed.read_config() == CONFIG
    assert claimed.read_vocabulary() == corpus.vocabulary
    assert claimed.load_tokenizer().vocabulary_size == 64
    assert claimed.read_run() == {
        "dataset": "text:toy",
        "source_language": "en",
        "target_language": "xx",
        "fingerprint": "f",
        "seed": 1,
        "max_tokens": 100,
        "batching": "length",
        "shapes": 3,
        "row_tokens": 128,
        "ema": 0.0,
    }


def test_claimed_twice_it_is_the_same(corpus, claimed):
    before = contents(claimed.path)
    claim(claimed, CONFIG, corpus, PLAN)
    assert contents(claimed.path) == before


def test_killed_between_two_writes_it_is_nobodys(
    corpus, directory, monkeypatch
):
    """A power cut, say: what claims the directory is written last."""

    class Killed(BaseException):
        pass

    other = CONFIG.replace(d_ff=99)
    for write in ("write_vocabulary", "write_run", "write_config"):
        with monkeypatch.context() as patch:

            def killed(*arguments):
                raise Killed

            patch.setattr(directory, write, killed)
            with pytest.raises(Killed):
                claim(directory, CONFIG, corpus, PLAN)
        # Any other training may have it as well.
        for config in (other, CONFIG):
            preparation.prepare(directory, config, corpus, PLAN)


def test_the_second_time_finds_the_same(corpus, claimed):
    prepared = preparation.prepare(claimed, CONFIG, corpus, PLAN)
    assert len(prepared.training) == 40


def test_splits_that_are_not_there(tmp_path, directory):
    corpus = prepare(tmp_path / "data", MemoryCorpus({"train": rows(9, 1)}))
    prepared = preparation.prepare(directory, CONFIG, corpus, PLAN)
    assert (prepared.dev, prepared.test) == (None, None)


def test_without_a_train_split_there_is_nothing_to_train_on(
    corpus, directory, monkeypatch
):
    pairs = corpus.pairs
    monkeypatch.setattr(
        corpus, "pairs", lambda name: None if name == "train" else pairs(name)
    )
    arguments = directory, CONFIG, corpus, PLAN
    _assert_refused("no train split", preparation.prepare, *arguments)


def test_too_long_pairs_are_left_out_and_told(corpus, directory, capsys):
    limit = 9
    prepared = preparation.prepare(
        directory, CONFIG, corpus, _plan(max_tokens=limit)
    )
    every = corpus.pairs("train")
    longer = np.maximum(every.source_lengths, every.target_lengths) > limit
    dropped = int(longer.sum())
    assert 0 < dropped < 40
    assert len(prepared.training) == 40 - dropped
    assert prepared.training.dropped == dropped
    tokens = every.target_lengths[~longer].sum()
    assert (
        f"train: {40 - dropped} pairs, {tokens} target tokens, {dropped} pairs "
        f"of more than 9 left out."
    ) in capsys.readouterr().out


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_limit_that_leaves_no_pair(tmp_path, directory, split):
    data = splits(**{split: [("ba do ki lu me", ("yz wh fq vx gx",))] * 3})
    corpus = prepare(tmp_path / "data", MemoryCorpus(data))
    limit = int(corpus.pairs(split).source_lengths.min()) - 1
    message = _assert_refused(
        f"No sentence pair of {split} is left .3 have more",
        preparation.prepare,
        directory,
        CONFIG,
        corpus,
        _plan(max_tokens=limit),
    )
    assert f"--max_tokens={limit}" in message


def test_data_of_another_vocabulary_size(corpus, directory):
    config = CONFIG.replace(vocabulary_size=63)
    _assert_refused(
        "vocabulary_size=64, not 63; use --set=vocabulary_size=64",
        preparation.prepare,
        directory,
        config,
        corpus,
        PLAN,
    )


@pytest.mark.parametrize(("positions", "fits"), [(99, False), (100, True)])
def test_sentences_must_fit_the_learned_positions(
    corpus, directory, positions, fits
):
    config = CONFIG.replace(positions="learned", max_positions=positions)
    arguments = directory, config, corpus, PLAN
    if fits:
        preparation.prepare(*arguments)
    else:
        _assert_refused(
            "--max_tokens=100 pieces do not fit .* max_positions=99",
            preparation.prepare,
            *arguments,
        )


def test_a_damaged_shard_is_refused(tmp_path, directory):
    corpus = prepare(tmp_path / "data")
    (tmp_path / "data" / "dev-00000.ids.npy").write_bytes(b"")
    arguments = directory, CONFIG, corpus, PLAN
    _assert_refused("dev-00000.ids.npy", preparation.prepare, *arguments)


@pytest.mark.parametrize(
    "changes",
    [
        {"train_steps": 7},
        {"average_checkpoints": 3},
        {"beam_size": 9},
        {"alpha": 0.1},
        {"length_penalty": "power"},
        {"max_output_extra": 1},
    ],
)
def test_how_long_to_train_and_how_to_decode_may_change(
    corpus, claimed, changes
):
    config = CONFIG.replace(**changes)
    preparation.prepare(claimed, config, corpus, PLAN)
    claim(claimed, config, corpus, PLAN)
    assert claimed.read_config() == config


@pytest.mark.parametrize(
    "changes",
    [
        {"accumulate": 4},
        {"jit": True},
        {"precision": "mixed_bfloat16"},
        {"patience": 3},
        {"train_minutes": 3.0},
        {"dev_steps": 7},
        {"report_steps": 7},
        {"checkpoint_steps": 7},
        {"checkpoint_minutes": 7.0},
        {"keep_checkpoints": 7},
    ],
)
def test_how_to_compute_and_what_to_report_may_change(corpus, claimed, changes):
    preparation.prepare(claimed, CONFIG, corpus, _plan(**changes))


@pytest.mark.parametrize(
    ("changes", "plan_changes", "message"),
    [
        ({"d_ff": 13}, {}, "d_ff=12, not 13"),
        ({"batch_tokens": 65}, {}, "batch_tokens=64, not 65"),
        ({"dropout": 0.5}, {}, "dropout=0.0, not 0.5"),
        ({}, {"seed": 2}, "seed=1, not 2"),
        # What follows decides which pairs make up which batch, so a training
        # that goes on would see some pairs twice and miss others.
        ({}, {"max_tokens": 99}, "max_tokens=100, not 99"),
        ({}, {"shapes": 4}, "shapes=3, not 4"),
        ({}, {"batching": "pack"}, "batching=length, not pack"),
        ({}, {"row_tokens": 64}, "row_tokens=128, not 64"),
        # A checkpoint without an average cannot go on with one.
        ({}, {"ema": 0.9}, "ema=0.0, not 0.9"),
    ],
)
def test_another_training_is_refused_and_nothing_overwritten(
    corpus, claimed, changes, plan_changes, message
):
    before = contents(claimed.path)
    config, plan = CONFIG.replace(**changes), _plan(**plan_changes)
    source = corpus.manifest.source
    for action, arguments in (
        (preparation.prepare, (claimed, config, corpus, plan)),
        (refuse_other_training, (claimed, config, source, plan)),
    ):
        told = _assert_refused(message, action, *arguments)
        assert str(claimed.path) in told
    assert contents(claimed.path) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataset", "text:other"),
        ("source_language", "xx"),
        ("target_language", "en"),
        ("fingerprint", "g"),
    ],
)
def test_other_data_are_refused(corpus, claimed, name, value):
    there = getattr(corpus.manifest.source, name)
    source = dataclasses.replace(corpus.manifest.source, **{name: value})
    _assert_refused(
        f"{name}={there}, not {value}; use another --model_dir",
        refuse_other_training,
        claimed,
        CONFIG,
        source,
        PLAN,
    )


def test_how_the_data_were_prepared_is_not_of_the_training(corpus, claimed):
    """With a higher limit on stored lengths, say: the pairs are the same."""
    source = dataclasses.replace(corpus.manifest.source, max_tokens=77)
    refuse_other_training(claimed, CONFIG, source, PLAN)


def test_a_new_directory_is_anybodys(corpus, directory):
    refuse_other_training(directory, CONFIG, corpus.manifest.source, PLAN)


def test_a_directory_of_an_older_release_lacks_what_is_new(corpus, claimed):
    run = claimed.read_run()
    del run["batching"]
    claimed.run_path.write_text(json.dumps(run))
    _assert_refused(
        "batching=None, not length",
        preparation.prepare,
        claimed,
        CONFIG,
        corpus,
        PLAN,
    )


@pytest.mark.parametrize("name", ["config.json", "run.json"])
@pytest.mark.parametrize("content", ["{", "[]", "null"])
def test_facts_that_are_none_are_refused(corpus, claimed, name, content):
    (claimed.path / name).write_text(content)
    _assert_refused(name, preparation.prepare, claimed, CONFIG, corpus, PLAN)


def test_facts_that_are_missing_are_refused(corpus, claimed):
    claimed.run_path.unlink()
    _assert_refused(
        "run.json", preparation.prepare, claimed, CONFIG, corpus, PLAN
    )
