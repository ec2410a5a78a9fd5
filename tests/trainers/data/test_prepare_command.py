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
from tests.damage import flip_bit
from tests.processes import ROOT
from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import contents, vocabulary
from trainers.data import open_corpus
from trainers.data.prepared_corpus import PreparedCorpus

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


@pytest.fixture(scope="module")
def preparer():
    """Runs the command without starting TensorFlow each time."""
    running = commands.Worker("trainers.prepare")
    yield running
    running.close()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """(folder, dataset, output) of a run that no test may change."""
    folder = tmp_path_factory.mktemp("first")
    dataset = cipher.write(folder)
    done = subprocess.run(
        [sys.executable, "-m", "trainers.prepare", *_arguments(dataset)],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=300,
    )
    result = commands.Result(done.returncode, done.stdout, done.stderr)
    assert (result.code, result.err) == (0, "")
    return folder, dataset, result.out


def test_the_text_is_in_the_shards(first):
    folder, dataset, out = first
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
        facts = prepared.manifest.splits[split]
        assert re.search(
            rf"^{split}: {count} pairs, {facts.source_tokens:,} source and "
            rf"{facts.target_tokens:,} target pieces, 0 ",
            out,
            re.MULTILINE,
        )
    assert prepared.test_set() == corpus.evaluation_set("test")
    assert out.splitlines()[-1].strip() == (
        "python -m trainers.wmt --prepared_dir=data --preset=tiny "
        "--set=vocabulary_size=64"
    )
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


def test_the_second_time_nothing_is_done(first, preparer, tmp_path):
    folder, dataset, out = first
    before = contents(folder)
    again = preparer.run(*_arguments(dataset), folder=folder)
    assert again.code == 0
    assert contents(folder) == before
    assert again.out.splitlines()[-4:] == out.splitlines()[-4:]
    result = preparer.run(*_arguments(dataset, "--workers=3"), folder=tmp_path)
    assert result.code == 0, result.err
    assert contents(tmp_path / "data") == contents(folder / "data")


def test_a_given_vocabulary_and_a_limit(first, preparer, tmp_path):
    folder, dataset, _ = first
    (tmp_path / "mine.model").write_bytes(vocabulary())
    arguments = _arguments(dataset, "--vocabulary=mine.model", "--max_tokens=9")
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    prepared = PreparedCorpus(tmp_path / "data")
    assert prepared.vocabulary == vocabulary()
    split = prepared.manifest.splits["train"]
    assert 0 < split.num_too_long < 200
    assert split.num_pairs == 200 - split.num_too_long
    assert re.search(rf"{split.num_too_long} pairs of more than 9 ", result.out)


def test_trees(first, preparer, tmp_path):
    arguments = (
        f"--dataset=trees:{ROOT}/tests/data/craft/craft",
        "--vocabulary_size=300",
        "--output_dir=data",
    )
    result = preparer.run(*arguments, folder=tmp_path)
    assert result.code == 0, result.err
    for told in ("train: 126 pairs, ", "dev: 41 pairs, "):
        assert told in result.out
    assert "python -m trainers.parsing --prepared_dir=" in result.out
    folder, dataset, _ = first
    for where, flags in ((tmp_path, _arguments(dataset)), (folder, arguments)):
        before = contents(where)
        result = preparer.run(*flags, folder=where)
        commands.assert_one_clear_line(result, "data holds data .*=t.*, not")
        assert contents(where) == before


def test_given_symbols(preparer, tmp_path):
    trees = ["(S (NP (NN cell)))", "(S (VP (VB go)))"]
    (tmp_path / "my.train.ptb").write_text("\n".join([*trees, *trees * 9]))
    given = Symbols.of([read_tree(trees[0])]).to_json()
    (tmp_path / "symbols.json").write_text(given)
    (tmp_path / "none.json").write_text("[]")
    arguments = (
        *("--dataset=trees:my", "--vocabulary_size=20"),
        "--output_dir=data",
    )
    result = preparer.run(*arguments, "--symbols=symbols.json", folder=tmp_path)
    assert result.code == 0, result.err
    assert "perplexity: 10; the first" in result.out
    assert (tmp_path / "data" / "symbols.json").read_text() == given
    result = preparer.run(*arguments, "--symbols=none.json", folder=tmp_path)
    commands.assert_one_clear_line(result, "none.json")


# Flags after good ones, and what the message names.
REFUSED = {
    "no folder": (["--output_dir="], "--output_dir"),
    "a file": (["--output_dir=toy.train.en"], "toy.train.en"),
    "below a file": (["--output_dir=toy.train.en/data"], "toy.train.en"),
    "long name": ([f"--output_dir={'m' * 300}"], "File name too long"),
    "data set": (["--dataset=what is it"], "'what is it'"),
    "prefix": (["--dataset=text:gone/toy"], "gone"),
    "language": (["--target_language=yy"], r"toy\.train\.yy"),
    "one language": (["--target_language=en"], "both 'en'"),
    "preset": (["--preset=tinier"], "'tinier'"),
    "preset's size": (["--preset=base", "--vocabulary_size="], "37000"),
    "too large": (["--vocabulary_size=4000"], "too large"),
    "too small": (["--vocabulary_size=7"], "too small"),
    "none": (["--vocabulary_size=0"], "vocabulary"),
    "below 0": (["--vocabulary_size=-5"], "vocabulary"),
    "vocabulary": (["--vocabulary=gone"], "--vocabulary=gone"),
    "text": (["--vocabulary=toy.train.en"], "not a SentencePiece model"),
    "symbols": (["--symbols=gone"], "--symbols"),
    "no pair left": (["--max_tokens=1"], "No sentence pair of train"),
    "argument": (["data"], "'data'"),
    "broken": (["--dataset=text:broken"], r"dev\.en has 12, .*dev\.xx has 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_leave_nothing(preparer, tmp_path, name):
    flags, message = REFUSED[name]
    cipher.write(tmp_path)
    if name == "broken":
        for path in [*tmp_path.iterdir()]:
            path.rename(path.with_name(path.name.replace("toy", "broken")))
        (tmp_path / "broken.dev.xx").write_text("yz\n")
    arguments = [*_arguments("text:toy"), *flags]
    if flags[-1] == "--vocabulary_size=":
        arguments = [a for a in arguments if "vocabulary_size" not in a]
    before = contents(tmp_path)
    result = preparer.run(*arguments, folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert contents(tmp_path) == before
    assert not any(path.is_dir() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "flag",
    ["--max_tokens=0", "--max_tokens=65536", "--workers=0", "--no_such_flag"],
)
def test_flags_that_absl_refuses(preparer, tmp_path, flag):
    cipher.write(tmp_path)
    before = contents(tmp_path)
    result = preparer.run(*_arguments("text:toy", flag), folder=tmp_path)
    assert result.code in (1, 2)
    assert flag.strip("-").partition("=")[0] in result.err
    assert "Traceback" not in result.err
    assert contents(tmp_path) == before


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
    (tmp_path / "data").mkdir()
    for name, content in contents(folder / "data").items():
        (tmp_path / "data" / name).write_bytes(content)
    flip_bit(tmp_path / "data" / "train-00000.ids.npy", -1)
    result = preparer.run(*_arguments(dataset), folder=tmp_path)
    commands.assert_one_clear_line(result, "Shard train-00000 in data")
