"""Treebanks, and their prepared data: words as tokens, trees as symbols."""

import dataclasses
import functools
import pathlib

import numpy as np
import pytest
import sentencepiece

from export.common.errors import InputError
from export.parsing.linearization import SymbolVocabulary, delinearize
from export.parsing.trees import format_tree, read_tree
from tests.damage import flip_bit
from tests.trainers.data.memory_corpus import contents, refused
from tests.trainers.data.memory_corpus import prepare as prepare_text
from trainers.data import open_corpus, validate_kind
from trainers.data.vocabulary import train_vocabulary

CRAFT = pathlib.Path(__file__).parents[2] / "data/craft/craft"
TRACED = (
    "( (S (NP-SBJ-1 (DT The) (NN cell)) (VP (VBZ divides) (NP (-NONE- *-1)))))"
)
FLAT = "(S (NN go))"


@pytest.fixture
def prefix(tmp_path, write_text):
    """A corpus of three splits of two trees."""
    for split in ("train", "dev", "test"):
        write_text(tmp_path / f"my.{split}.ptb", [TRACED, FLAT])
    return f"trees:{tmp_path}/my"


def _open(dataset, source=None, target=None):
    return open_corpus(dataset, source, target)


def _refused(match, action, *arguments, **changes):
    with refused(match):
        action(*arguments, **changes)


def _sources(corpus, split):
    return [source for source, _ in corpus.pairs(split)]


def test_pairs_are_words_and_symbols(prefix):
    corpus = _open(prefix)
    assert corpus.splits() == ("train", "dev", "test")
    assert (corpus.kind, corpus.name) == ("trees", prefix)
    assert (corpus.source_language, corpus.target_language) == ("en", "trees")
    assert list(corpus.pairs("dev")) == [
        ("The cell divides", "(S (NP DT NN )NP (VP VBZ )VP )S"),
        ("go", "(S NN )S"),
    ]
    evaluation_set = corpus.evaluation_set("test")
    assert evaluation_set.sources == ("The cell divides", "go")
    assert evaluation_set.references == (
        ("(TOP (S (NP (DT The) (NN cell)) (VP (VBZ divides))))",),
        ("(TOP (S (NN go)))",),
    )


def test_trees_are_parsed_once_however_often_pairs_are_read(
    tmp_path, write_text
):
    words = [f"w\u2603{number}" for number in range(40)]
    path = tmp_path / "x.train.ptb"
    write_text(path, [f"(S (NN {each}))" for each in words])
    corpus = _open(f"trees:{tmp_path}/x")
    next(corpus.pairs("train"))
    path.unlink()
    # Two readers at once, which keep the corpus.
    readers = corpus.pairs("train"), corpus.pairs("train")
    del corpus
    for word, *pairs in zip(words, *readers, strict=True):
        assert pairs == [(word, "(S NN )S")] * 2


def test_packed_files_and_folders(tmp_path, write_text, monkeypatch):
    write_text(tmp_path / "train.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb.gz", [TRACED])
    write_text(tmp_path / "dev.ptb", [FLAT])
    corpus = _open(f"trees:{tmp_path}/", "de", "trees")
    assert corpus.source_language == "de"
    assert corpus.splits() == ("train", "dev")
    assert _sources(corpus, "train") == ["The cell divides"]
    assert _sources(corpus, "dev") == ["go"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _open("trees:~/").fingerprint() == corpus.fingerprint()
    # The fingerprint is of all files.
    before = corpus.fingerprint()
    write_text(tmp_path / "dev.ptb", [TRACED])
    assert _open("trees:~/").fingerprint() != before


def test_refusals(prefix, tmp_path, write_text):
    nowhere = f"{tmp_path}/nowhere"
    for match, *arguments in (
        ("--target_language", prefix, "en", ""),
        ("language code", prefix, "../x", None),
        ("trees: needs a prefix", "trees:"),
        (f"{nowhere}.train.ptb", f"trees:{nowhere}"),
        (f"Cannot list {nowhere}", f"trees:{nowhere}/x"),
        ("names no folder", "trees:~nobody-of-this-name/x"),
        ("''", f"{prefix},"),
        ("my[*]0'", f"{prefix},{tmp_path}/my*0"),
        ("'[*]4'", f"{prefix},*4"),
        ("none.train.ptb", f"{prefix},{tmp_path}/none"),
    ):
        _refused(match, _open, *arguments)
    # Files without a tree are refused at once.
    for lines, match in (
        (["(S (NN go)", FLAT], "Line 1 of .*my.dev.ptb"),
        (["", FLAT], "Line 1 of .*my.dev.ptb"),
        (["(S (NP (-NONE- *)))", FLAT], "Line 1 of .*my.dev.ptb"),
        ([], "my.dev.ptb holds no tree"),
    ):
        write_text(tmp_path / "my.dev.ptb", lines)
        _refused(match, _open, prefix)
    (tmp_path / "my.dev.ptb").unlink()
    corpus = _open(prefix)
    for read in (corpus.pairs, corpus.trees, corpus.evaluation_set):
        with pytest.raises(InputError, match="'dev'"):
            list(read("dev"))
    (tmp_path / "my.train.ptb").unlink()
    _refused("no 'train' split", _open, f"{prefix},{tmp_path}/my")
    (tmp_path / "my.train.ptb").mkdir()
    _refused("train.ptb", _open, prefix)


def test_trees_of_several_prefixes_are_repeated(prefix, tmp_path, write_text):
    for split in ("train", "dev"):
        write_text(tmp_path / f"silver.{split}.ptb", ["(S (UH oh))"])
    mixed = _open(f"{prefix}*2,{tmp_path}/silver*3")
    assert _sources(mixed, "train") == [
        *["The cell divides"] * 2,
        *["go"] * 2,
        *["oh"] * 3,
    ]
    # Dev and test are the first's, once.
    for split in ("dev", "test"):
        assert list(mixed.pairs(split)) == list(_open(prefix).pairs(split))
    before = mixed.fingerprint()
    assert before != _open(prefix).fingerprint()
    write_text(tmp_path / "silver.train.ptb", [FLAT])
    assert _open(mixed.name).fingerprint() != before


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
    arguments = {"vocabulary": _vocabulary(), "vocabulary_size": SIZE}
    arguments["max_tokens"] = 1000
    return prepare_text(folder, corpus, **arguments | changes)


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
    prepared.validate_checksums()
    assert prepared.symbols == SymbolVocabulary.from_trees(
        corpus.trees("train")
    )
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=prepared.vocabulary
    )
    # Ids of tokens that begin a word come last.
    tokens = processor.id_to_piece([*range(SIZE)])
    tokens.sort(key=lambda token: token.startswith("▁"))
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    read_back = 0
    for split in ("train", "dev"):
        expected = [read_tree(line) for line in _lines(split)]
        sides = _sides(prepared, split)
        for tree, (source, target) in zip(expected, sides, strict=True):
            symbols = prepared.symbols.decode(target)
            assert delinearize(symbols, tree.leaves()) == tree
            # The id alone tells whether a token begins a word.
            starts = [tokens[n].startswith("▁") for n in source]
            assert starts[0] and sum(starts) == len(tree.leaves())
            if 1 not in source:
                words = "".join(tokens[n] for n in source).split("▁")[1:]
                normal = map(normalizer.normalize, tree.leaves())
                assert words == [word.strip("▁ ") for word in normal]
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


def test_other_and_damaged_symbols_are_refused(tmp_path, corpus):
    folder = tmp_path / "data"
    _prepare(folder, corpus)
    own = SymbolVocabulary.from_trees(corpus.trees("train"))
    before = contents(folder)
    # As many of both, so that every size is the same.
    for changes, name in (
        ({"labels": (*own.labels[:-1], "XX")}, f"label '{own.labels[-1]}'"),
        ({"tags": ("#", *own.tags[1:])}, "tag '#'"),
    ):
        given = dataclasses.replace(own, **changes)
        _refused(name, _prepare, folder, corpus, symbols=given)
        assert contents(folder) == before
    # Limits of the search do not change the meaning of ids.
    deeper = dataclasses.replace(own, max_depth=99, max_open=99)
    assert _prepare(folder, corpus, symbols=deeper).symbols == own
    flip_bit(folder / "symbols.json", -9)
    _refused("symbols.json", _prepare, folder, corpus)
    (folder / "symbols.json").unlink()
    _refused("symbols.json", _prepare, folder, corpus)


def test_data_of_another_kind_are_refused(tmp_path, corpus):
    prepare_text(tmp_path / "text")
    _refused("dataset=memory", _prepare, tmp_path / "text", corpus)
    validate_kind("data", "text", "text")
    _refused("trainers.parsing", validate_kind, "data", "trees", "text")
