"""Prepared data of trees: words as pieces, trees as symbols."""

import dataclasses
import functools
import pathlib

import numpy as np
import pytest
import sentencepiece

from export.common.errors import InputError
from export.parsing.linearization import (
    SymbolVocabulary,
    delinearize,
)
from export.parsing.trees import format_tree, read_tree
from tests.damage import flip_bit
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import contents
from tests.trainers.data.memory_corpus import prepare as prepare_text
from trainers.data import open_corpus
from trainers.data.manifest import validate_kind
from trainers.data.preparation import prepare_corpus
from trainers.data.vocabulary import train_vocabulary

CRAFT = pathlib.Path(__file__).parents[2] / "data/craft/craft"
SIZE = 300
UNKNOWN_LABEL = "(S (INTJ (NN cell)))"
UNKNOWN_TAG = "(S (NP (ODD cell)))"


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
    dev = [UNKNOWN_LABEL, *short[:17], UNKNOWN_TAG, *short[20:23]]
    splits = {"train": short, "dev": dev, "test": [short[0], UNKNOWN_TAG]}
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


def _interrupted(prepare, monkeypatch, number):
    """Prepares; a number is the write after which it is killed."""
    with at_write(monkeypatch, number):
        try:
            prepare()
        except Killed:
            assert number is not None


def _refused(match, folder, corpus, **changes):
    with pytest.raises(InputError, match=match) as caught:
        _prepare(folder, corpus, **changes)
    assert "\n" not in str(caught.value)


def _sides(prepared, split):
    """Yields lists of ids, the end id checked and removed."""
    pairs = prepared.pairs(split)
    for number in range(len(pairs)):
        one = np.array([number])
        sides = pairs.sources(one).tolist(), pairs.targets(one).tolist()
        assert all(side.pop() == 3 for side in sides)
        yield sides


def test_words_and_trees_come_back_from_the_ids(tmp_path):
    corpus = open_corpus(f"trees:{CRAFT}", None, None)
    prepared = _prepare(tmp_path, corpus, vocabulary=None)
    prepared.check()
    assert prepared.symbols == SymbolVocabulary.from_trees(
        corpus.trees("train")
    )
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=prepared.vocabulary
    )
    # Pieces by their ids: those that begin a word come last.
    names = [processor.IdToPiece(n) for n in range(len(processor))]
    names.sort(key=lambda name: name.startswith("▁"))
    assert len(names) == SIZE
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    read_back = 0
    for split in ("train", "dev"):
        expected = [read_tree(line) for line in _lines(split)]
        sides = _sides(prepared, split)
        for tree, (source, target) in zip(expected, sides, strict=True):
            symbols = prepared.symbols.decode(target)
            assert delinearize(symbols, tree.leaves()) == tree
            # The id alone tells whether a piece begins a word.
            starts = [names[n].startswith("▁") for n in source]
            assert starts[0] and sum(starts) == len(tree.leaves())
            if 1 in source:
                continue
            words = "".join(names[n] for n in source).split("▁")[1:]
            assert words == [
                normalizer.normalize(word).strip("▁ ") for word in tree.leaves()
            ]
            read_back += 1
    assert read_back > 140


@pytest.mark.usefixtures("small_shards")
def test_unencodable_trees_are_skipped_and_counted(tmp_path, corpus, capsys):
    prepared = _prepare(tmp_path / "data", corpus, workers=3)
    dev = prepared.manifest.splits["dev"]
    assert (dev.num_read, dev.num_pairs) == (22, 20)
    assert (dev.num_unencodable, dev.num_too_long) == (2, 0)
    assert dev.first_unencodable.startswith("line 1: The label 'INTJ'")
    assert dev.first_unencodable in capsys.readouterr().out
    targets = [
        prepared.symbols.decode(target) for _, target in _sides(prepared, "dev")
    ]
    pairs = [symbols.split() for _, symbols in corpus.pairs("dev")]
    assert targets == [*pairs[1:18], *pairs[19:]]
    # The evaluation set has all.
    evaluation_set = prepared.test_set()
    assert evaluation_set == corpus.evaluation_set("test")
    assert evaluation_set.references[1] == (
        format_tree(read_tree(UNKNOWN_TAG)),
    )
    # The line number counts those of earlier shards.
    path = tmp_path / "my.dev.ptb"
    _, *lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(lines) + "\n", "utf-8")
    corpus = open_corpus(corpus.name, None, None)
    dev = _prepare(tmp_path / "other", corpus).manifest.splits["dev"]
    assert [shard.num_read for shard in dev.shards] == [14, 7]
    assert dev.first_unencodable.startswith("line 18: The tag 'ODD'")


@pytest.mark.parametrize("number", [4, None])
def test_other_and_damaged_symbols_are_refused(
    tmp_path, monkeypatch, corpus, number
):
    folder = tmp_path / "data"
    _interrupted(lambda: _prepare(folder, corpus), monkeypatch, number)
    own = SymbolVocabulary.from_trees(corpus.trees("train"))
    before = contents(folder)
    # As many of both, so that every size is the same.
    for changes, name in (
        ({"labels": (*own.labels[:-1], "XX")}, f"label '{own.labels[-1]}'"),
        ({"tags": ("#", *own.tags[1:])}, "tag '#'"),
    ):
        given = dataclasses.replace(own, **changes)
        _refused(name, folder, corpus, symbols=given)
        assert contents(folder) == before
    # Limits of the search do not change the meaning of ids.
    deeper = dataclasses.replace(own, max_depth=99, max_open=99)
    assert _prepare(folder, corpus, symbols=deeper).symbols == own
    flip_bit(folder / "symbols.json", -9)
    _refused("symbols.json", folder, corpus)
    (folder / "symbols.json").unlink()
    _refused("symbols.json", folder, corpus)


def test_folders_of_the_other_kind(tmp_path, monkeypatch, corpus):
    """Finished ones are refused, unfinished ones replaced."""
    text, trees = tmp_path / "text", tmp_path / "trees"
    assert prepare_text(text).manifest.kind == "text"
    assert _prepare(trees, corpus).manifest.kind == "trees"
    before = contents(tmp_path)
    _refused("dataset=memory", text, corpus)
    with pytest.raises(InputError, match="dataset=trees:"):
        prepare_text(trees)
    assert contents(tmp_path) == before
    other = tmp_path / "other"
    _interrupted(lambda: _prepare(other, corpus), monkeypatch, 6)
    prepare_text(other)
    assert contents(other) == contents(text)


def test_refused_trees_leave_nothing(tmp_path, corpus):
    for changes, match in (
        ({"vocabulary": b"none"}, "not a SentencePiece"),
        ({"vocabulary_size": 60}, "has 300 pieces"),
        ({"vocabulary_size": 90_000, "vocabulary": None}, "too large"),
    ):
        _refused(match, tmp_path / "new/data", corpus, **changes)
    with (tmp_path / "my.dev.ptb").open("a") as file:
        file.write("(S (NN cell\n")
    corpus = open_corpus(corpus.name, None, None)
    _refused(r"Line 23 of .*my\.dev\.ptb", tmp_path / "new/data", corpus)
    assert not (tmp_path / "new").exists()
    validate_kind("data", "text", "text")
    for kinds, command in (
        (("trees", "text"), "trainers.parsing"),
        (("text", "trees"), "trainers.wmt"),
    ):
        with pytest.raises(InputError, match=command):
            validate_kind("data", *kinds)
