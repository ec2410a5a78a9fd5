"""`python -m trainers.prepare`."""

import dataclasses

import pytest

from export.parsing.linearization import SymbolVocabulary
from export.parsing.trees import read_tree
from tests.damage import flip_bit
from tests.processes import ROOT
from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import contents
from trainers.data import open_corpus
from trainers.data.preparation import COPY_RATE, NOISE, make_data_source
from trainers.data.prepared_corpus import PreparedCorpus

TEXT = (
    "--dataset=text:toy",
    f"--source_language={cipher.SOURCE}",
    f"--target_language={cipher.TARGET}",
    "--vocabulary_size=64",
    "--output_dir=data",
)
TREES = (
    f"--dataset=trees:{ROOT}/tests/data/craft/craft",
    "--vocabulary_size=300",
    "--output_dir=data",
)


@pytest.fixture(scope="module")
def preparer():
    """Runs the command without starting TensorFlow each time."""
    running = commands.Worker("trainers.prepare")
    yield running
    running.close()


def test_a_report_shows_what_was_removed(preparer, tmp_path):
    """Also of data that are prepared already; text is not markup."""
    cipher.write(tmp_path)
    for side, line in ((cipher.SOURCE, "<b>bad</b> &"), (cipher.TARGET, "x")):
        with (tmp_path / f"toy.train.{side}").open("a") as file:
            file.write(f"{line}\n{line}\n")
    for name in "one.html", "two.html":
        result = preparer.run(
            *(*TEXT, "--filters=markup", "--drop_duplicates"),
            *(f"--report={name}", "--max_unknown=1"),
            folder=tmp_path,
        )
        assert (result.code, result.err) == (0, "")
    page = (tmp_path / "one.html").read_text("utf-8")
    assert page == (tmp_path / "two.html").read_text("utf-8")
    for text in "of 202 training pairs", "markup: 1 (0.50%)", "repeated: ":
        assert text in page
    assert page.count("&lt;b&gt;bad&lt;/b&gt; &amp;") == 2
    assert "<b>" not in page
    result = preparer.run(*TEXT, "--report=no/page.html", folder=tmp_path)
    assert result.code == 2


def test_text_is_prepared_once(preparer, tmp_path):
    cipher.write(tmp_path)
    first = preparer.run(*TEXT, folder=tmp_path)
    assert (first.code, first.err) == (0, "")
    prepared = PreparedCorpus(tmp_path / "data")
    corpus = open_corpus(f"text:{tmp_path}/toy", cipher.SOURCE, cipher.TARGET)
    assert len(prepared.pairs("train")) == 200
    assert prepared.test_set() == corpus.evaluation_set("test")
    train = prepared.manifest.splits["train"]
    assert f"train: 200 pairs, {train.source.num_tokens:,} source" in first.out
    assert first.out.splitlines()[-1].strip() == (
        "python -m trainers.wmt --prepared_dir=data --preset=tiny "
        "--set=vocabulary_size=64"
    )
    source = make_data_source(
        corpus, 64, 1024, copy_rate=COPY_RATE, noise=NOISE
    )
    source = dataclasses.replace(source, dataset="text:toy")
    assert prepared.manifest.source == source
    before = contents(tmp_path)
    again = preparer.run(*TEXT, folder=tmp_path)
    assert again.out.splitlines()[-4:] == first.out.splitlines()[-4:]
    # Other data in the folder are not touched.
    result = preparer.run(*TREES, folder=tmp_path)
    commands.assert_one_clear_line(result, "data holds data .*=text:toy, not")
    assert contents(tmp_path) == before
    # A damaged shard is found.
    flip_bit(tmp_path / "data" / "train-00000.ids.npy", -1)
    result = preparer.run(*TEXT, folder=tmp_path)
    commands.assert_one_clear_line(result, "data/train-00000")


def test_trees_and_given_symbols(preparer, tmp_path):
    trees = ["(S (NP (NN cell)))", "(S (VP (VB go)))"]
    (tmp_path / "my.train.ptb").write_text("\n".join(trees * 10))
    symbols = SymbolVocabulary.from_trees([read_tree(trees[0])]).to_json()
    (tmp_path / "symbols.json").write_text(symbols)
    (tmp_path / "none.json").write_text("[]")
    arguments = (*TREES, "--dataset=trees:my", "--vocabulary_size=20")
    result = preparer.run(*arguments, "--symbols=symbols.json", folder=tmp_path)
    assert result.code == 0, result.err
    assert "perplexity: 10; the first" in result.out
    assert "python -m trainers.parsing --prepared_dir=" in result.out
    assert (tmp_path / "data" / "symbols.json").read_text() == symbols
    result = preparer.run(*arguments, "--symbols=none.json", folder=tmp_path)
    commands.assert_one_clear_line(result, "none.json")


# Flags after good ones, and what the message names.
REFUSED = [
    ("--output_dir=", "--output_dir"),
    ("--output_dir=toy.train.en/data", "toy.train.en"),
    ("--preset=tinier", "'tinier'"),
    ("--vocabulary=gone", "gone"),
    ("--vocabulary=toy.train.en", "not a SentencePiece model"),
    ("--symbols=gone", "--symbols"),
    ("--max_tokens=1", "No sentence pair of train"),
    # Without Ray, the message names what is to be installed.
    ("--ray=127.0.0.1:1", "--ray"),
    ("--ray=127.0.0.1:1 --workers=2", "--workers"),
    ("data", "'data'"),
]


def test_refusals_leave_nothing(preparer, tmp_path):
    cipher.write(tmp_path)
    before = contents(tmp_path)
    for flags, message in REFUSED:
        result = preparer.run(*TEXT, *flags.split(), folder=tmp_path)
        commands.assert_one_clear_line(result, message)
    assert contents(tmp_path) == before
    assert not any(path.is_dir() for path in tmp_path.iterdir())
