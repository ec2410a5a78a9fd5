"""What a training needs, which directory it may use, what is refused."""

import dataclasses

import numpy as np
import pytest

from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from tests.damage import flip_bit
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    rows,
    splits,
)
from tests.trainers.training_options import CONFIG, OPTIONS, changed
from trainers.training.training_inputs import (
    DEV_FLAGS,
    load_inputs,
    resolve_tokenizer,
    validate_positions,
    validate_same_training,
    write_run_files,
)


def _refusal(function, *arguments):
    with pytest.raises(InputError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_inputs_are_loaded_and_nothing_is_written(
    corpus, directory, tmp_path, capsys
):
    inputs = load_inputs(directory, CONFIG, corpus, OPTIONS)
    assert inputs.directory is directory
    assert inputs.config == CONFIG
    (load,) = inputs.training.loaders
    assert (len(load()), len(inputs.dev)) == (40, 9)
    ids = load().targets(np.array([0]))
    assert Tokenizer(corpus.vocabulary).decode([ids]) == [
        splits()["train"][0][1][0]
    ]
    assert inputs.test.sources == tuple(s for s, _ in splits()["test"])
    assert "skipped" not in capsys.readouterr().out
    assert contents(tmp_path) == {}
    assert not directory.path.exists()


def test_run_files(corpus, claimed):
    before = contents(claimed.path)
    assert set(before) == {"config.json", "run.json", "vocabulary.model"}
    assert claimed.read_config() == CONFIG
    assert claimed.read_vocabulary() == corpus.vocabulary
    assert claimed.load_tokenizer().vocabulary_size == 64
    assert claimed.read_run() == {
        "dataset": "text:toy",
        "source_language": "en",
        "target_language": "xx",
        "fingerprint": "f",
        "copy_rate": 0.0,
        "noise": "off",
        "segmentations": 1,
        "max_ratio": 0.0,
        "drop_duplicates": False,
        "drop_near_duplicates": False,
        "check_languages": False,
        "filters": "off",
        "pair_scores": "",
        "keep_share": 1.0,
        "seed": 1,
        "max_tokens": 100,
        "batching": "length",
        "shapes": 3,
        "row_tokens": 128,
        "ema": 0.0,
        "tokenize": "13a",
    }
    write_run_files(claimed, CONFIG, corpus, OPTIONS)
    other = changed(seed=2)
    refusal = _refusal(write_run_files, claimed, CONFIG, corpus, other)
    assert "seed=1, not 2" in refusal
    assert contents(claimed.path) == before
    # As after a kill before the last file was written: the directory is free.
    claimed.config_path.unlink()
    write_run_files(claimed, CONFIG.replace(d_ff=99), corpus, OPTIONS)


def test_what_may_change_when_a_training_resumes(corpus, claimed):
    options = changed(
        accumulate=4, jit=True, patience=3, dev_steps=7, keep_checkpoints=7
    )
    config = CONFIG.replace(
        train_steps=7, cooldown_steps=5, average_checkpoints=3, beam_size=9
    )
    write_run_files(claimed, config, corpus, options)
    assert claimed.read_config() == config


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("config", {"d_ff": 13}, "d_ff=12, not 13"),
        # These decide which pairs make up which batch: a resumed training
        # would see some pairs twice and miss others.
        ("options", {"max_tokens": 99}, "max_tokens=100, not 99"),
        # A checkpoint without an average cannot resume with one.
        ("options", {"ema": 0.9}, "ema=0.0, not 0.9"),
        ("source", {"max_tokens": 77}, "max_tokens=100, not 77"),
        ("source", {"copy_rate": 0.5}, "copy_rate=0.0, not 0.5"),
        ("source", {"fingerprint": "g"}, "its fingerprint differs in f, g"),
    ],
)
def test_another_training_is_refused(corpus, claimed, kind, changes, message):
    things = {
        "config": CONFIG,
        "source": corpus.manifest.source,
        "options": OPTIONS,
    }
    things[kind] = dataclasses.replace(things[kind], **changes)
    refusal = _refusal(validate_same_training, claimed, *things.values())
    assert message in refusal and str(claimed.path) in refusal


def test_without_dev_what_needs_it_is_refused(tmp_path, directory):
    corpus = prepare(tmp_path / "data", MemoryCorpus({"train": rows(9, 1)}))
    inputs = load_inputs(directory, CONFIG, corpus, OPTIONS)
    assert (inputs.dev, inputs.test) == (None, None)
    for flag in DEV_FLAGS:
        options = changed(**{flag: 1})
        refusal = _refusal(load_inputs, directory, CONFIG, corpus, options)
        assert f"--{flag}" in refusal


def test_too_long_pairs_are_skipped_and_counted(corpus, directory, capsys):
    options = changed(max_tokens=9)
    inputs = load_inputs(directory, CONFIG, corpus, options)
    pairs = corpus.pairs("train")
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths) > 9
    dropped = int(longer.sum())
    assert 0 < dropped < 40
    (load,) = inputs.training.loaders
    assert len(load()) == 40 - dropped
    tokens = pairs.target_lengths[~longer].sum()
    out = capsys.readouterr().out
    assert f"train: {40 - dropped} pairs, {tokens} target tokens" in out
    assert f"{dropped} pairs of more than 9" in out


def test_a_limit_that_leaves_no_pair_is_refused(corpus, directory):
    options = changed(max_tokens=1)
    refusal = _refusal(load_inputs, directory, CONFIG, corpus, options)
    assert "train" in refusal and "--max_tokens=1" in refusal


def test_data_of_another_vocabulary_or_damaged_are_refused(tmp_path, directory):
    corpus = prepare(tmp_path / "data")
    config = CONFIG.replace(vocabulary_size=63)
    refusal = _refusal(load_inputs, directory, config, corpus, OPTIONS)
    assert "--set=vocabulary_size=64" in refusal
    flip_bit(tmp_path / "data" / "dev-00000.ids.npy", -2)
    refusal = _refusal(load_inputs, directory, CONFIG, corpus, OPTIONS)
    assert "dev-00000" in refusal


def test_sentences_must_fit_learned_positions():
    for positions, kind in ((100, "learned"), (99, "sinusoidal")):
        config = CONFIG.replace(positions=kind, max_positions=positions)
        validate_positions(config, OPTIONS)
    config = CONFIG.replace(positions="learned", max_positions=99)
    assert "--max_tokens" in _refusal(validate_positions, config, OPTIONS)


def test_the_bleu_tokenizer_is_the_target_languages(corpus, directory):
    options = changed(tokenize=None)
    for language, name in (("de", "13a"), ("zh_CN", "zh")):
        chosen = resolve_tokenizer(options, directory, language)
        assert chosen == changed(tokenize=name)
    char = resolve_tokenizer(changed(tokenize="char"), directory, "zh")
    assert char.tokenize == "char"
    # A resumed training keeps its own.
    write_run_files(directory, CONFIG, corpus, char)
    assert resolve_tokenizer(options, directory, "zh") == char
