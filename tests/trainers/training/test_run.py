import numpy as np
import pytest

from export.tokenizers.tokenizer import Tokenizer
from tests.damage import flip_bit
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    rows,
    splits,
)
from tests.trainers.training_options import (
    CONFIG,
    PLAN,
    assert_refused,
    changed,
)
from trainers.training import training_inputs
from trainers.training.training_inputs import (
    choose_tokenizer,
    validate_positions,
    write_run_files,
)


def test_everything_training_needs(corpus, directory):
    prepared = training_inputs.prepare(directory, CONFIG, corpus, PLAN)
    assert prepared.directory is directory
    assert prepared.config == CONFIG
    assert prepared.dataset == "text:toy"
    assert (len(prepared.training), len(prepared.dev)) == (40, 9)
    ids = prepared.training.targets(np.array([0]))
    tokenizer = Tokenizer(corpus.vocabulary)
    assert tokenizer.decode([ids]) == [splits()["train"][0][1][0]]
    assert prepared.test.sources == tuple(s for s, _ in splits()["test"])


def test_where_no_pair_is_too_long_none_is_spoken_of(corpus, directory, capsys):
    training_inputs.prepare(directory, CONFIG, corpus, PLAN)
    tokens = [
        corpus.pairs(name).target_lengths.sum() for name in ("train", "dev")
    ]
    assert capsys.readouterr().out.splitlines() == [
        f"train: 40 pairs, {tokens[0]} target tokens.",
        f"dev: 9 pairs, {tokens[1]} target tokens.",
    ]


def test_it_writes_nothing(corpus, directory, tmp_path):
    training_inputs.prepare(directory, CONFIG, corpus, PLAN)
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
        "tokenize": "13a",
    }


def test_claimed_twice_it_is_the_same(corpus, claimed):
    before = contents(claimed.path)
    write_run_files(claimed, CONFIG, corpus, PLAN)
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
                write_run_files(directory, CONFIG, corpus, PLAN)
        # Any other training may have it as well.
        for config in (other, CONFIG):
            training_inputs.prepare(directory, config, corpus, PLAN)


def test_the_second_time_finds_the_same(corpus, claimed):
    prepared = training_inputs.prepare(claimed, CONFIG, corpus, PLAN)
    assert len(prepared.training) == 40


def test_splits_that_are_not_there(tmp_path, directory):
    corpus = prepare(tmp_path / "data", MemoryCorpus({"train": rows(9, 1)}))
    prepared = training_inputs.prepare(directory, CONFIG, corpus, PLAN)
    assert (prepared.dev, prepared.test) == (None, None)


@pytest.mark.parametrize(
    "flag",
    [
        {"keep_best": True},
        {"patience": 1},
        {"dev_bleu_sentences": 5},
        {"dev_f1_sentences": 5},
    ],
)
def test_without_dev_what_measures_it_is_refused(tmp_path, directory, flag):
    corpus = prepare(tmp_path / "data", MemoryCorpus({"train": rows(9, 1)}))
    (name,) = flag
    arguments = directory, CONFIG, corpus, changed(**flag)
    assert_refused(
        f"no dev split for --{name}", training_inputs.prepare, *arguments
    )


def test_without_a_train_split_there_is_nothing_to_train_on(
    corpus, directory, monkeypatch
):
    pairs = corpus.pairs
    monkeypatch.setattr(
        corpus, "pairs", lambda name: None if name == "train" else pairs(name)
    )
    arguments = directory, CONFIG, corpus, PLAN
    assert_refused("no train split", training_inputs.prepare, *arguments)


def test_too_long_pairs_are_left_out_and_told(corpus, directory, capsys):
    limit = 9
    prepared = training_inputs.prepare(
        directory, CONFIG, corpus, changed(max_tokens=limit)
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
    message = assert_refused(
        f"No sentence pair of {split} is left .3 have more",
        training_inputs.prepare,
        directory,
        CONFIG,
        corpus,
        changed(max_tokens=limit),
    )
    assert f"--max_tokens={limit}" in message


def test_data_of_another_vocabulary_size(corpus, directory):
    config = CONFIG.replace(vocabulary_size=63)
    assert_refused(
        "vocabulary_size=64, not 63; use --set=vocabulary_size=64",
        training_inputs.prepare,
        directory,
        config,
        corpus,
        PLAN,
    )


@pytest.mark.parametrize(
    ("positions", "kind", "fits"),
    [(99, "learned", False), (100, "learned", True), (99, "sinusoidal", True)],
)
def test_sentences_must_fit_the_learned_positions(positions, kind, fits):
    config = CONFIG.replace(positions=kind, max_positions=positions)
    if fits:
        validate_positions(config, PLAN)
    else:
        assert_refused(
            "--max_tokens=100 pieces do not fit .* max_positions=99",
            validate_positions,
            config,
            PLAN,
        )


def test_a_damaged_shard_is_refused(tmp_path, directory):
    corpus = prepare(tmp_path / "data")
    (tmp_path / "data" / "dev-00000.ids.npy").write_bytes(b"")
    arguments = directory, CONFIG, corpus, PLAN
    assert_refused("dev-00000.ids.npy", training_inputs.prepare, *arguments)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_an_altered_id_is_refused(tmp_path, directory, split):
    corpus = prepare(tmp_path / "data")
    path = tmp_path / "data" / f"{split}-00000.ids.npy"
    flip_bit(path, -2)
    arguments = directory, CONFIG, corpus, PLAN
    assert_refused(
        f"Shard {split}-00000 in .* is damaged",
        training_inputs.prepare,
        *arguments,
    )


def test_bleu_is_counted_as_the_target_language_wants(directory):
    asked = changed(tokenize=None)
    for language, name in (("de", "13a"), ("zh_CN", "zh")):
        settled = choose_tokenizer(asked, directory, language)
        assert settled == changed(tokenize=name)
    given = choose_tokenizer(changed(tokenize="char"), directory, "zh")
    assert given.tokenize == "char"


def test_a_training_that_goes_on_counts_as_before(corpus, directory):
    write_run_files(directory, CONFIG, corpus, changed(tokenize="char"))
    settled = choose_tokenizer(changed(tokenize=None), directory, "zh")
    assert settled.tokenize == "char"
    training_inputs.prepare(directory, CONFIG, corpus, settled)
    other = choose_tokenizer(changed(tokenize="intl"), directory, "zh")
    assert_refused(
        "tokenize=char, not intl",
        training_inputs.prepare,
        directory,
        CONFIG,
        corpus,
        other,
    )


def test_a_training_of_before_went_by_13a(corpus, claimed):
    run = claimed.read_run()
    del run["tokenize"]
    claimed.write_run(run)
    settled = choose_tokenizer(changed(tokenize=None), claimed, "zh")
    assert settled.tokenize == "13a"
    training_inputs.prepare(claimed, CONFIG, corpus, settled)


def test_a_directory_that_another_claimed_meanwhile(corpus, claimed):
    before = contents(claimed.path)
    other = CONFIG.replace(dropout=0.3)
    assert_refused("dropout=", write_run_files, claimed, other, corpus, PLAN)
    assert contents(claimed.path) == before
