"""`python -m trainers.prepare` as a user runs it."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from export.parsing.linear import Symbols
from export.parsing.trees import read_tree
from export.tokenizers.tokenizer import Tokenizer
from tests import processes
from tests.damage import flip_bit
from tests.processes import ROOT
from tests.trainers import cipher, commands
from tests.trainers.prepared.memory_corpus import contents, vocabulary
from trainers.corpora import open_corpus
from trainers.prepared.prepared_corpus import PreparedCorpus

PREPARE = {"module": "trainers.prepare"}
LANGUAGES = (
    f"--source_language={cipher.SOURCE}",
    f"--target_language={cipher.TARGET}",
)


def _arguments(dataset, *more):
    return (
        f"--dataset={dataset}",
        *LANGUAGES,
        "--vocabulary_size=64",
        "--output_dir=data",
        *more,
    )


def _run_alone(*arguments, folder):
    """The command as a user runs it, imports and all."""
    done = subprocess.run(
        [sys.executable, "-m", "trainers.prepare", *arguments],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=300,
    )
    return commands.Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def preparer():
    """Runs the command without starting TensorFlow each time."""
    running = commands.Worker("trainers.prepare")
    yield running
    running.close()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """(folder, dataset, result) of a run that no test may change."""
    folder = tmp_path_factory.mktemp("first")
    dataset = cipher.write(folder)
    return folder, dataset, _run_alone(*_arguments(dataset), folder=folder)


def test_it_says_what_it_did_and_what_to_do_next(first):
    folder, dataset, result = first
    assert (result.code, result.err) == (0, "")
    manifest = PreparedCorpus(folder / "data").manifest
    told = [
        f"{name}: {split.pairs:,} pairs, {split.source_tokens:,} source and "
        f"{split.target_tokens:,} target pieces, 0 pairs of more than 1,024 "
        "left out."
        for name, split in manifest.splits.items()
    ]
    assert result.out.splitlines() == [
        f"Data: {dataset}, en to xx, splits train, dev, test.",
        "Training a vocabulary of 64 pieces.",
        "Normalisation nmt_nfkc changes 0.00% of the source characters, 0.00% "
        "of the target characters.",
        *told,
        "",
        "Next:",
        "  python -m trainers.wmt --prepared_dir=data --preset=tiny "
        "--set=vocabulary_size=64",
    ]


def test_the_text_is_in_the_shards(first):
    folder, dataset, _ = first
    prepared = PreparedCorpus(folder / "data")
    prepared.check()
    corpus = open_corpus(dataset, cipher.SOURCE, cipher.TARGET)
    tokenizer = Tokenizer(prepared.vocabulary)
    for split, count in (("train", 200), ("dev", 12)):
        texts = list(corpus.pairs(split))
        pairs = prepared.pairs(split)
        assert len(pairs) == count
        for number in range(count):
            ids = pairs.targets(np.array([number]))
            assert tokenizer.decode([ids]) == [texts[number][1]]
    assert prepared.test_set() == corpus.evaluation_set("test")


def test_the_second_time_nothing_is_done(first, preparer):
    folder, dataset, result = first
    before = contents(folder)
    again = preparer.run(*_arguments(dataset), folder=folder)
    assert again.code == 0
    assert contents(folder) == before
    data, _, _, *lines = result.out.splitlines()
    assert again.out.splitlines() == [data, *lines]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(
    first, preparer, tmp_path, workers
):
    folder, dataset, _ = first
    arguments = _arguments(dataset, f"--workers={workers}")
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    assert contents(tmp_path / "data") == contents(folder / "data")


def test_a_vocabulary_may_be_given(first, preparer, tmp_path):
    _, dataset, _ = first
    (tmp_path / "mine.model").write_bytes(vocabulary())
    arguments = _arguments(dataset, "--vocabulary=mine.model")
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Training a vocabulary" not in result.out
    assert PreparedCorpus(tmp_path / "data").vocabulary == vocabulary()


def test_symbols_may_be_given(preparer, tmp_path):
    """Trees that they cannot say are left out, and told."""
    trees = ["(S (NP (NN cell)))", "(S (VP (VB go)))"]
    (tmp_path / "my.train.ptb").write_text("\n".join([*trees, *trees * 9]))
    given = Symbols.of([read_tree(trees[0])]).to_json()
    (tmp_path / "symbols.json").write_text(given)
    (tmp_path / "none.json").write_text("[]")
    arguments = (
        "--dataset=trees:my",
        "--vocabulary_size=20",
        "--output_dir=data",
    )
    result = preparer.run(*arguments, "--symbols=symbols.json", folder=tmp_path)
    assert result.code == 0, result.err
    assert "left out of training and perplexity: 10; the first" in result.out
    assert (tmp_path / "data" / "symbols.json").read_text() == given
    result = preparer.run(*arguments, "--symbols=none.json", folder=tmp_path)
    commands.assert_one_clear_line(result, "none.json cannot be used .Symbols")


def test_long_pairs_are_left_out_and_counted(first, preparer, tmp_path):
    folder, dataset, _ = first
    limit = 9
    arguments = _arguments(dataset, f"--max_tokens={limit}")
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    every = PreparedCorpus(folder / "data").pairs("train")
    kept = every.no_longer_than(limit)
    assert 0 < kept.dropped < 200
    assert re.search(
        rf"^train: {len(kept)} pairs, .* pieces, {kept.dropped} pairs of more "
        r"than 9 left out\.$",
        result.out,
        re.MULTILINE,
    )


def test_a_preset_says_how_large_the_vocabulary_is(first, preparer, tmp_path):
    """Too large for so little text: the preset's own size is named."""
    _, dataset, _ = first
    result = preparer.run(
        f"--dataset={dataset}",
        *LANGUAGES,
        "--output_dir=data",
        "--preset=base",
        folder=tmp_path,
    )
    commands.assert_one_clear_line(
        result, "37000 pieces is too large for this text"
    )
    assert contents(tmp_path) == {}


# Flags after good ones, and what is said of them.
BAD_FLAGS = {
    "no folder": (["--output_dir="], "--output_dir has an empty"),
    "a file": (["--output_dir=toy.train.en"], "toy.train.en"),
    "below a file": (["--output_dir=toy.train.en/data"], "toy.train.en"),
    "long name": ([f"--output_dir={'m' * 300}"], "File name too long"),
    "data set": (["--dataset=what is it"], "Unknown data set 'what is it'"),
    "prefix": (["--dataset=text:gone/toy"], "Cannot list gone"),
    "language": (["--target_language=yy"], r"toy\.train\.yy"),
    "one language": (["--target_language=en"], "both 'en'"),
    "too large": (["--vocabulary_size=4000"], "too large for this text"),
    "too small": (["--vocabulary_size=7"], "too small for this text"),
    "none": (["--vocabulary_size=0"], "vocabulary"),
    "below 0": (["--vocabulary_size=-5"], "vocabulary"),
    "vocabulary": (["--vocabulary=gone"], "Cannot read --vocabulary=gone: No"),
    "text": (["--vocabulary=toy.train.en"], "not a SentencePiece model"),
    "symbols": (["--symbols=gone"], "--symbols is of trees, not of text"),
    "no pair left": (["--max_tokens=1"], "No sentence pair of train is left"),
    "argument": (["data"], "Unknown argument 'data'; flags begin with --"),
}

# Flags that absl itself refuses, in its own words, with exit code 1.
REFUSED_FLAGS = [
    "--max_tokens=0",
    "--max_tokens=65536",
    "--workers=0",
    "--vocabulary_size=many",
    "--no_such_flag",
]


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_flags(preparer, tmp_path, name):
    flags, message = BAD_FLAGS[name]
    cipher.write(tmp_path)
    before = contents(tmp_path)
    arguments = _arguments("text:toy", *flags)
    result = preparer.run(*arguments, folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert contents(tmp_path) == before
    assert not any(path.is_dir() for path in tmp_path.iterdir())


@pytest.mark.parametrize("flag", REFUSED_FLAGS)
def test_flags_that_are_refused_at_once(preparer, tmp_path, flag):
    cipher.write(tmp_path)
    before = contents(tmp_path)
    arguments = _arguments("text:toy", flag)
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code in (1, 2)
    assert flag.strip("-").partition("=")[0] in result.err
    assert "Traceback" not in result.err
    assert contents(tmp_path) == before


def test_an_unknown_preset(preparer, tmp_path):
    result = preparer.run(
        "--output_dir=data", "--preset=tinier", folder=tmp_path
    )
    commands.assert_one_clear_line(
        result, "no preset 'tinier'; there are: base"
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--vocabulary_size=60", "vocabulary_size=64, not 60"),
        ("--max_tokens=99", "max_tokens=1024, not 99"),
    ],
)
def test_other_data_in_the_folder_are_not_touched(
    first, preparer, flag, message
):
    folder, dataset, _ = first
    before = contents(folder)
    result = preparer.run(*_arguments(dataset, flag), folder=folder)
    commands.assert_one_clear_line(result, message)
    assert contents(folder) == before


def test_a_damaged_shard_is_found(first, preparer, tmp_path):
    folder, dataset, _ = first
    for name, content in contents(folder / "data").items():
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_bytes(content)
    path = tmp_path / "data" / "train-00000.ids.npy"
    flip_bit(path, -1)
    result = preparer.run(*_arguments(dataset), folder=tmp_path)
    commands.assert_one_clear_line(
        result, "Shard train-00000 in data is damaged"
    )


def test_a_broken_line_is_named_and_nothing_left(preparer, tmp_path):
    cipher.write(tmp_path)
    (tmp_path / "toy.dev.xx").write_text("yz\n")
    result = preparer.run(*_arguments("text:toy"), folder=tmp_path)
    commands.assert_one_clear_line(
        result, r"toy\.dev\.en has 12, .*toy\.dev\.xx has 1"
    )
    assert not (tmp_path / "data").exists()


def test_trees_are_prepared_for_parsing(first, preparer, tmp_path):
    arguments = (
        f"--dataset=trees:{ROOT}/tests/data/craft/craft",
        "--vocabulary_size=300",
        "--output_dir=data",
    )
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0].endswith("craft, en to trees, splits train, dev.")
    for told in ("train: 126 pairs, ", "dev: 41 pairs, "):
        assert any(line.startswith(told) for line in lines)
    assert lines[-1].startswith("  python -m trainers.parsing --prepared_dir=")
    # The other kind in the same folder, the other way round too.
    before = contents(tmp_path)
    folder, dataset, _ = first
    result = preparer.run(*_arguments(dataset), folder=tmp_path)
    commands.assert_one_clear_line(result, "data holds data .*=trees:.*, not")
    assert contents(tmp_path) == before
    before = contents(folder)
    result = preparer.run(*arguments, folder=folder)
    commands.assert_one_clear_line(result, "data holds data .*, not trees:")
    assert contents(folder) == before


def test_help_tells_defaults_and_units(tmp_path):
    result = processes.run(PREPARE, ["--help"], tmp_path)
    # absl's own code for having helped.
    assert result.code in (0, 1)
    for words in (
        "--output_dir",
        "--workers",
        "(default: '1024')",
        "(default: 'tatoeba-en-fr')",
        "Pairs with a side of more pieces than this",
    ):
        assert words in result.out
    assert contents(tmp_path) == {}


def test_the_manifest_says_what_it_was_made_from(first):
    folder, dataset, _ = first
    corpus = open_corpus(dataset, cipher.SOURCE, cipher.TARGET)
    content = json.loads((folder / "data" / "manifest.json").read_text())
    assert content["source"] == {
        "dataset": dataset,
        "source_language": "en",
        "target_language": "xx",
        "fingerprint": corpus.fingerprint(),
        "vocabulary_size": 64,
        "max_tokens": 1024,
        "normalization": "auto",
    }
    assert content["splits"]["train"]["pairs"] == 200
