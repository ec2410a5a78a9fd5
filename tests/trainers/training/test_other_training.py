"""Which training a model directory is of, and what may change in it."""

import dataclasses
import json

import pytest

from tests.trainers.data.memory_corpus import (
    contents,
)
from tests.trainers.training_options import (
    CONFIG,
    PLAN,
    assert_refused,
    changed,
)
from trainers.training import training_inputs
from trainers.training.training_inputs import (
    validate_same_training,
    write_run_files,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"train_steps": 7},
        {"cooldown_steps": 5},
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
    training_inputs.prepare(claimed, config, corpus, PLAN)
    write_run_files(claimed, config, corpus, PLAN)
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
        {"dev_bleu_sentences": 7},
        {"dev_f1_sentences": 7},
        {"report_steps": 7},
        {"checkpoint_steps": 7},
        {"checkpoint_minutes": 7.0},
        {"keep_checkpoints": 7},
    ],
)
def test_how_to_compute_and_what_to_report_may_change(corpus, claimed, changes):
    training_inputs.prepare(claimed, CONFIG, corpus, changed(**changes))


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
    config, plan = CONFIG.replace(**changes), changed(**plan_changes)
    source = corpus.manifest.source
    for action, arguments in (
        (training_inputs.prepare, (claimed, config, corpus, plan)),
        (validate_same_training, (claimed, config, source, plan)),
    ):
        told = assert_refused(message, action, *arguments)
        assert str(claimed.path) in told
    assert contents(claimed.path) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataset", "text:other"),
        ("source_language", "xx"),
        ("target_language", "en"),
    ],
)
def test_other_data_are_refused(corpus, claimed, name, value):
    there = getattr(corpus.manifest.source, name)
    source = dataclasses.replace(corpus.manifest.source, **{name: value})
    assert_refused(
        f"{name}={there}, not {value}; use another --model_dir",
        validate_same_training,
        claimed,
        CONFIG,
        source,
        PLAN,
    )


def test_changed_data_are_refused_by_the_file_that_changed(corpus, claimed):
    source = dataclasses.replace(corpus.manifest.source, fingerprint="g")
    arguments = claimed, CONFIG, source, PLAN
    message = "changed since it began: its fingerprint was f and is g; restore"
    assert_refused(message, validate_same_training, *arguments)


def test_how_the_data_were_prepared_is_not_of_the_training(corpus, claimed):
    """With a higher limit on stored lengths, say: the pairs are the same."""
    source = dataclasses.replace(corpus.manifest.source, max_tokens=777)
    validate_same_training(claimed, CONFIG, source, PLAN)


def test_data_without_the_longer_pairs_are_others(corpus, claimed):
    source = dataclasses.replace(corpus.manifest.source, max_tokens=77)
    message = "max_tokens=100, not 77"
    arguments = (claimed, CONFIG, source, PLAN)
    assert_refused(message, validate_same_training, *arguments)


def test_a_new_directory_is_anybodys(corpus, directory):
    validate_same_training(directory, CONFIG, corpus.manifest.source, PLAN)


def test_a_directory_of_an_older_release_lacks_what_is_new(corpus, claimed):
    run = claimed.read_run()
    del run["batching"]
    claimed.run_path.write_text(json.dumps(run))
    assert_refused(
        "batching=None, not length",
        training_inputs.prepare,
        claimed,
        CONFIG,
        corpus,
        PLAN,
    )


@pytest.mark.parametrize("name", ["config.json", "run.json"])
@pytest.mark.parametrize("content", ["{", "[]", "null"])
def test_facts_that_are_none_are_refused(corpus, claimed, name, content):
    (claimed.path / name).write_text(content)
    assert_refused(name, training_inputs.prepare, claimed, CONFIG, corpus, PLAN)


def test_facts_that_are_missing_are_refused(corpus, claimed):
    claimed.run_path.unlink()
    assert_refused(
        "run.json", training_inputs.prepare, claimed, CONFIG, corpus, PLAN
    )
