"""Prepared data of trees: words as pieces, trees as symbols."""

import dataclasses
import functools
import json
import pathlib
import re

import numpy as np
import pytest
import sentencepiece

from export.errors import InputError
from export.parsing.linear import Bounds, Symbols, delinearise
from export.parsing.trees import one_line, read_tree, tags
from tests.damage import flip_bit
from tests.trainers.prepared.interruptions import Killed, at_write
from tests.trainers.prepared.memory_corpus import assert_refused, contents
from tests.trainers.prepared.memory_corpus import prepare as prepare_text
from trainers.corpora import open_corpus
from trainers.prepared.manifest import validate_kind
from trainers.prepared.prepared_corpus import PreparedCorpus
from trainers.prepared.vocabulary import train_vocabulary
from trainers.prepared.writing import prepare_corpus

CRAFT = pathlib.Path(__file__).parents[2] / "data/craft/craft"
SIZE = 300
UNSEEN_LABEL = "(S (INTJ (NN cell)))"
UNSEEN_TAG = "(S (NP (ODD cell)))"


@functools.cache
def _lines(split):
    return pathlib.Path(f"{CRAFT}.{split}.ptb").read_text("utf-8").splitlines()


@functools.cache
def _vocabulary():
    words = (" ".join(read_tree(line).leaves()) for line in _lines("train"))
    return train_vocabulary(words, SIZE)


@pytest.fixture
def corpus(tmp_path):
    """30 trees to train on; two of 22 of dev have what none of these has."""
    short = sorted(_lines("train"), key=len)[10:40]
    seen = [UNSEEN_LABEL, *short[:17], UNSEEN_TAG, *short[20:23]]
    splits = {"train": short, "dev": seen, "test": [short[0], UNSEEN_TAG]}
    for name, lines in splits.items():
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"my.{name}.ptb").write_text(text, "utf-8")
    return open_corpus(f"trees:{tmp_path}/my", None, None)


def _prepare(folder, corpus, **changes):
    arguments = {
        "vocabulary_size": SIZE,
        "max_tokens": 1000,
        "workers": 1,
        "vocabulary": _vocabulary(),
    }
    return prepare_corpus(folder, corpus, **arguments | changes)


def _sides(prepared, split):
    """Lists of ids, the end id checked and taken off."""
    pairs = prepared.pairs(split)
    for number in range(len(pairs)):
        one = np.array([number])
        sides = pairs.sources(one).tolist(), pairs.targets(one).tolist()
        assert all(side.pop() == 3 for side in sides)
        yield sides


def _piece_names(vocabulary):
    """Pieces by their ids: those that begin a word come last."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    names = [processor.IdToPiece(n) for n in range(len(processor))]
    return sorted(names, key=lambda name: name.startswith("▁"))


def test_trees_over_their_words_come_back_from_the_ids(tmp_path):
    prepared = _prepare(
        tmp_path, open_corpus(f"trees:{CRAFT}", None, None), vocabulary=None
    )
    prepared.check()
    names = _piece_names(prepared.vocabulary)
    normaliser = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    read_back = 0
    for split in ("train", "dev"):
        expected = [read_tree(line) for line in _lines(split)]
        sides = _sides(prepared, split)
        for tree, (source, target) in zip(expected, sides, strict=True):
            symbols = prepared.symbols.symbols_of(target)
            assert delinearise(symbols, tree.leaves()) == tree
            # A word's first piece is told from the id alone.
            starts = [names[n].startswith("▁") for n in source]
            assert starts[0]
            assert sum(starts) == len(tags(tree))
            if 1 in source:
                continue
            words = "".join(names[n] for n in source).split("▁")[1:]
            assert words == [
                normaliser.normalize(word).strip("▁ ") for word in tree.leaves()
            ]
            read_back += 1
    assert read_back > 140


def test_the_vocabularies_are_of_the_train_split(tmp_path, corpus, capsys):
    prepared = _prepare(tmp_path / "data", corpus, vocabulary=None)
    assert f"a vocabulary of {SIZE} pieces" in capsys.readouterr().out
    trees = list(corpus.trees("train"))
    assert prepared.symbols == Symbols.of(trees)
    letters = set("".join(word for tree in trees for word in tree.leaves()))
    names = _piece_names(prepared.vocabulary)
    assert len(names) == SIZE
    # No bracket of the symbols, which stand in their own file.
    assert "(" not in letters
    assert not any("(" in name for name in names)
    assert sorted(contents(tmp_path / "data")) == [
        "dev-00000.ids.npy",
        "dev-00000.lengths.npy",
        "manifest.json",
        "symbols.json",
        "test.json",
        "train-00000.ids.npy",
        "train-00000.lengths.npy",
        "vocabulary.model",
    ]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.usefixtures("small_shards")
def test_trees_with_something_unseen_are_left_out_and_told(
    tmp_path, corpus, capsys, workers
):
    prepared = _prepare(tmp_path / "data", corpus, workers=workers)
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("Pairs")] == [
        "Pairs of dev left out of training and perplexity: 2; the first is "
        "line 1: The label 'INTJ' is in none of the trees that the symbols "
        "were made from."
    ]
    dev = prepared.manifest.splits["dev"]
    assert (dev.read, dev.pairs, dev.unseen, dev.dropped) == (22, 20, 2, 0)
    targets = [
        prepared.symbols.symbols_of(target)
        for _, target in _sides(prepared, "dev")
    ]
    pairs = list(corpus.pairs("dev"))
    kept = [pair for n, pair in enumerate(pairs) if n not in (0, 18)]
    assert targets == [symbols.split() for _, symbols in kept]
    # To evaluate on, all are there.
    held_out = prepared.test_set()
    assert held_out == corpus.evaluation_set("test")
    (last,) = held_out.references[1]
    assert last == one_line(read_tree(UNSEEN_TAG))


def test_symbols_may_be_given(tmp_path, corpus):
    """Trees that they cannot say are left out, of the train split too."""
    lines = [read_tree(line) for line in _lines("train")]
    given = Symbols.of(lines)
    with (tmp_path / "my.train.ptb").open("a") as file:
        file.write(UNSEEN_TAG + "\n")
    assert "ODD" not in given.tags
    prepared = _prepare(tmp_path / "data", corpus, symbols=given)
    assert prepared.symbols == given
    assert prepared.symbols != Symbols.of(corpus.trees("train"))
    train = prepared.manifest.splits["train"]
    assert (train.read, train.pairs, train.unseen) == (31, 30, 1)
    for tree, (_, target) in zip(
        corpus.trees("train"), _sides(prepared, "train")
    ):
        symbols = given.symbols_of(target)
        assert delinearise(symbols, tree.leaves()) == tree


@pytest.mark.parametrize("finished", [True, False])
def test_other_symbols_than_those_of_the_data_are_refused_by_name(
    tmp_path, monkeypatch, corpus, finished
):
    folder = tmp_path / "data"
    with at_write(monkeypatch, None if finished else 4):
        try:
            _prepare(folder, corpus)
        except Killed:
            assert not finished
    own = Symbols.of(corpus.trees("train"))
    before = contents(folder)
    # As many of both, so that every size is the same.
    for changes, name in (
        ({"labels": (*own.labels[:-1], "XX")}, f"label '{own.labels[-1]}'"),
        ({"tags": ("#", *own.tags[1:])}, "tag '#'"),
    ):
        given = dataclasses.replace(own, **changes)
        with pytest.raises(InputError, match=f"only one .* has the {name}"):
            _prepare(folder, corpus, symbols=given)
        assert contents(folder) == before
    # Bounds are of the search, and not of what the ids mean.
    deeper = dataclasses.replace(own, bounds=Bounds(99, 99, 99))
    assert _prepare(folder, corpus, symbols=deeper).symbols == own


def test_symbols_that_say_none_of_the_trees(tmp_path, corpus):
    given = Symbols(("NP",), ("#",), Bounds(1, 1, 1))
    with pytest.raises(InputError, match="30 a target that cannot be said"):
        _prepare(tmp_path / "new/data", corpus, symbols=given)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("small_shards")
def test_the_line_of_a_first_unseen_one_in_a_later_shard(tmp_path, corpus):
    path = tmp_path / "my.dev.ptb"
    _, *lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(lines) + "\n", "utf-8")
    dev = _prepare(tmp_path / "data", corpus).manifest.splits["dev"]
    assert [shard.read for shard in dev.shards] == [14, 7]
    assert dev.first_unseen.startswith("line 18: The tag 'ODD'")


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.usefixtures("small_shards")
def test_interrupted_anywhere_the_same_command_goes_on(
    tmp_path, monkeypatch, corpus, when
):
    with at_write(monkeypatch) as names:
        _prepare(tmp_path / "whole", corpus)
    expected = contents(tmp_path / "whole")
    first = ["vocabulary.model", "symbols.json", "manifest.json", "test.json"]
    assert names[:4] == first
    for number in range(len(names)):
        folder = tmp_path / f"{number}"
        with at_write(monkeypatch, number, when), pytest.raises(Killed):
            _prepare(folder, corpus)
        with at_write(monkeypatch) as again:
            _prepare(folder, corpus)
        assert contents(folder) == expected, names[number]
        assert len(again) <= max(len(names) - number, 0) + 4


def test_when_all_is_done_nothing_is_read(tmp_path, corpus, monkeypatch):
    _prepare(tmp_path / "data", corpus)
    before = contents(tmp_path / "data")
    for name in ("trees", "pairs", "evaluation_set"):
        monkeypatch.setattr(corpus, name, None)
    again = _prepare(tmp_path / "data", corpus, vocabulary=None)
    assert again.symbols.labels
    assert contents(tmp_path / "data") == before


@pytest.mark.parametrize("damage", ["gone", "other"])
@pytest.mark.parametrize("finished", [True, False])
def test_damaged_symbols_are_found(
    tmp_path, monkeypatch, corpus, damage, finished
):
    folder = tmp_path / "data"
    try:
        with at_write(monkeypatch, None if finished else 3):
            _prepare(folder, corpus)
    except Killed:
        assert not finished
    if damage == "gone":
        (folder / "symbols.json").unlink()
    else:
        flip_bit(folder / "symbols.json", -9)
    with pytest.raises(InputError, match=r"symbols\.json") as caught:
        _prepare(folder, corpus)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [2, 6, None])
def test_folders_of_text_and_of_trees(tmp_path, monkeypatch, corpus, number):
    """What is finished is refused, what is not is begun anew."""
    text, trees = tmp_path / "text", tmp_path / "trees"
    for folder, make in (
        (text, prepare_text),
        (trees, lambda folder: _prepare(folder, corpus)),
    ):
        with at_write(monkeypatch, number):
            try:
                make(folder)
            except Killed:
                continue
    if number is None:
        before = contents(tmp_path)
        assert_refused("holds data prepared with dataset=trees:", trees)
        with pytest.raises(InputError, match="with dataset=memory, not trees"):
            _prepare(text, corpus)
        assert contents(tmp_path) == before
        return
    prepare_text(trees)
    _prepare(text, corpus)
    prepare_text(tmp_path / "fresh text")
    _prepare(tmp_path / "fresh trees", corpus)
    assert contents(trees) == contents(tmp_path / "fresh text")
    assert contents(text) == contents(tmp_path / "fresh trees")


def test_the_other_kind_is_refused(tmp_path, corpus):
    text = prepare_text(tmp_path / "text")
    trees = _prepare(tmp_path / "trees", corpus)
    assert text.symbols is None
    kinds = {"text": text.manifest.kind, "trees": trees.manifest.kind}
    assert kinds == {"text": "text", "trees": "trees"}
    for kind in kinds:
        validate_kind("data", kind, kind)
    with pytest.raises(
        InputError,
        match=re.escape(
            "data holds trees, but text was expected; train on it with "
            "python -m trainers.parsing, or give other data."
        ),
    ):
        validate_kind("data", "trees", "text")
    with pytest.raises(InputError, match="holds text, but trees .*wmt"):
        validate_kind("data", "text", "trees")


def test_manifests_of_text_say_what_they_always_said(tmp_path, corpus):
    """Those written before there were trees are read, and trees' again."""
    prepare_text(tmp_path / "text")
    content = json.loads((tmp_path / "text/manifest.json").read_text())
    assert sorted(content) == [
        "complete",
        "format",
        "source",
        "splits",
        "test_sha256",
        "vocabulary_sha256",
    ]
    split = {"shards", "source_lengths", "target_lengths"}
    told = {"pairs", "dropped", "source_tokens", "target_tokens"}
    assert set(content["splits"]["train"]) == split | told
    written = _prepare(tmp_path / "trees", corpus).manifest
    assert PreparedCorpus(tmp_path / "trees").manifest == written
    content = json.loads((tmp_path / "trees/manifest.json").read_text())
    more = {"unseen", "first_unseen", "unknown"}
    assert set(content["splits"]["dev"]) - split - told == more


def test_a_vocabulary_that_does_not_fit_leaves_nothing(tmp_path, corpus):
    for changes, match in (
        ({"vocabulary": b"none"}, "cannot be used: This is not a Sentence"),
        ({"vocabulary_size": 60}, "has 300 pieces, not vocabulary_size=60"),
        (
            {"vocabulary_size": 90_000, "vocabulary": None},
            "90000 pieces is too large",
        ),
    ):
        with pytest.raises(InputError, match=match) as caught:
            _prepare(tmp_path / "new/data", corpus, **changes)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "new").exists()


def test_a_broken_tree_leaves_nothing(tmp_path, corpus):
    with (tmp_path / "my.dev.ptb").open("a") as file:
        file.write("(S (NN cell\n")
    with pytest.raises(InputError, match=r"Line 23 of .*my\.dev\.ptb"):
        _prepare(tmp_path / "data", corpus)
    assert not (tmp_path / "data").exists()
