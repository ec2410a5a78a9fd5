import json

import numpy as np
import pytest

from export.tokenizers.tokenizer import Tokenizer
from tests.trainers import cipher
from tests.trainers.prepared.memory_corpus import (
    SIZE,
    MemoryCorpus,
    assert_refused,
    contents,
    prepare,
    rows,
    splits,
    vocabulary,
)
from trainers.corpora import open_corpus
from trainers.prepared import codecs

pytestmark = pytest.mark.usefixtures("small_shards")


def _decoded(prepared, split):
    """A split as text again, in its order."""
    tokenizer = Tokenizer(prepared.vocabulary)
    pairs = prepared.pairs(split)
    texts = []
    for number in range(len(pairs)):
        one = np.array([number])
        sides = pairs.sources(one), pairs.targets(one)
        texts.append(tuple(tokenizer.decode(side[None])[0] for side in sides))
    return texts


def test_the_text_comes_back_from_the_ids(tmp_path):
    corpus = MemoryCorpus(splits())
    prepared = prepare(tmp_path, corpus)
    for split in ("train", "dev"):
        assert _decoded(prepared, split) == list(corpus.pairs(split))
    assert prepared.test_set() == corpus.evaluation_set("test")
    assert prepared.vocabulary == vocabulary()
    assert prepared.manifest.complete
    prepared.check()


def test_its_files(tmp_path):
    prepare(tmp_path)
    assert sorted(contents(tmp_path)) == sorted(
        [
            "manifest.json",
            "vocabulary.model",
            "test.json",
            *(
                f"{split}-{number:05d}.{end}.npy"
                for split, count in (("train", 3), ("dev", 1))
                for number in range(count)
                for end in ("ids", "lengths")
            ),
        ]
    )


def test_without_a_vocabulary_one_is_trained_on_both_sides(tmp_path, capsys):
    prepared = prepare(tmp_path, vocabulary=None)
    assert "Training a vocabulary of 64 pieces." in capsys.readouterr().out
    tokenizer = Tokenizer(prepared.vocabulary)
    assert tokenizer.vocabulary_size == SIZE
    texts = [text for pair in cipher.sentences(40, 1) for text in pair]
    assert not any((ids == 1).any() for ids in tokenizer.encode(texts))
    # Not on the dev and test splits.
    again = prepare(tmp_path / "2", MemoryCorpus({"train": rows(40, 1)}))
    assert again.vocabulary == vocabulary()


def test_rare_characters_are_known(tmp_path, monkeypatch):
    """Digits, in everyday text."""
    # Room for all, in a vocabulary that text of ten syllables can fill.
    monkeypatch.setattr(codecs, "_CHARACTERS", 0.5)
    train = rows(2000, 1)
    for number in (5, 700, 1500):
        train[number] = ("in 1984 (K): 25 %", ("1984 (K) : 25 %",))
    prepared = prepare(
        tmp_path,
        MemoryCorpus({"train": train}),
        vocabulary=None,
        vocabulary_size=100,
    )
    tokenizer = Tokenizer(prepared.vocabulary)
    (ids,) = tokenizer.encode(["(25): K 1984 %"])
    assert 1 not in ids
    assert tokenizer.decode([ids]) == ["(25): K 1984 %"]


def test_the_vocabulary_of_a_large_corpus_is_of_a_part_spread_over_it(
    tmp_path, monkeypatch
):
    trained_on = []

    def train(sentences, size, characters, normalization):
        assert normalization == "nmt_nfkc"
        trained_on.extend(sentences)
        assert set(characters) < set("".join(trained_on))
        return vocabulary(size=size)

    monkeypatch.setattr(codecs, "train_vocabulary", train)
    monkeypatch.setattr(codecs, "_VOCABULARY_PAIRS", 15)
    prepare(tmp_path, vocabulary=None)
    pairs = cipher.sentences(40, 1)[::3]
    assert len(pairs) == 14
    assert trained_on == [text for pair in pairs for text in pair]


def test_a_corpus_of_files(tmp_path):
    corpus = open_corpus(cipher.write(tmp_path), cipher.SOURCE, cipher.TARGET)
    prepared = prepare(tmp_path / "data", corpus)
    assert _decoded(prepared, "dev") == list(corpus.pairs("dev"))
    assert len(prepared.pairs("train")) == 200


def test_a_source_with_two_references_gives_two_pairs(tmp_path):
    train = [("ba do", ("yz wh", "wh yz")), ("ki", ("fq",))]
    prepared = prepare(tmp_path, MemoryCorpus({"train": train}))
    assert _decoded(prepared, "train") == [
        ("ba do", "yz wh"),
        ("ba do", "wh yz"),
        ("ki", "fq"),
    ]


def test_splits_that_are_not_there(tmp_path):
    prepared = prepare(tmp_path, MemoryCorpus({"train": rows(5, 1)}))
    assert set(prepared.manifest.splits) == {"train"}
    assert prepared.pairs("dev") is None
    assert prepared.test_set() is None


@pytest.mark.parametrize("workers", [2, 7])
def test_the_number_of_workers_changes_no_byte(tmp_path, workers):
    prepare(tmp_path / "one")
    prepare(tmp_path / "other", workers=workers)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_too_long_pairs_are_left_out_and_counted(tmp_path):
    corpus = MemoryCorpus(splits())
    tokenizer = Tokenizer(vocabulary())
    limit = 9
    prepared = prepare(tmp_path, corpus, max_tokens=limit)
    for split, count in (("train", 40), ("dev", 9)):
        pairs = list(corpus.pairs(split))
        lengths = [[len(tokenizer.encode([t])[0]) for t in p] for p in pairs]
        kept = [n for n, both in enumerate(lengths) if max(both) <= limit]
        assert _decoded(prepared, split) == [pairs[n] for n in kept]
        counted = prepared.manifest.splits[split]
        assert (counted.read, counted.pairs) == (count, len(kept))
        assert counted.dropped == count - len(kept) > 0
        assert counted.source_tokens == sum(lengths[n][0] for n in kept)
        assert counted.target_tokens == sum(lengths[n][1] for n in kept)


def test_a_shard_all_of_whose_pairs_are_too_long(tmp_path):
    long, short = ("ba " * 50, ("yz " * 50,)), ("ba", ("yz",))
    train = [long] * 14 + [short] + [long] * 30
    prepared = prepare(tmp_path, MemoryCorpus({"train": train}), max_tokens=9)
    shards = prepared.manifest.splits["train"].shards
    assert [shard.pairs for shard in shards] == [0, 1, 0, 0]
    assert _decoded(prepared, "train") == [("ba", "yz")]
    prepared.check()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_split_without_a_pair_left(tmp_path, split):
    corpus = MemoryCorpus(splits(**{split: [("ba " * 99, ("yz " * 99,))] * 3}))
    assert_refused(
        f"No sentence pair of {split} is left .3 have more than 20",
        tmp_path / "new" / "data",
        corpus,
        max_tokens=20,
    )
    assert contents(tmp_path) == {}
    assert not (tmp_path / "new").exists()


class _Numbers:
    """A tokenizer of numbers, with as many pieces as asked for."""

    proto = property(lambda self: vocabulary())

    def __init__(self, proto):
        self.vocabulary_size = int(proto)

    source = target = property(lambda self: self)

    def encode(self, texts):
        return [np.array([*map(int, t.split()), 3], np.int32) for t in texts]


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(65_535, np.uint16), (65_536, np.uint16), (65_537, np.int32)],
)
def test_ids_take_two_bytes_where_they_fit(tmp_path, monkeypatch, size, dtype):
    monkeypatch.setattr(codecs, "load_tokenizer", _Numbers)
    train = [(f"4 {size - 1}", (f"{size - 1} {size - 2} 5",))]
    prepared = prepare(
        tmp_path,
        MemoryCorpus({"train": train}),
        vocabulary_size=size,
        vocabulary=str(size).encode(),
    )
    stored = np.load(tmp_path / "train-00000.ids.npy")
    assert stored.dtype == dtype
    first = np.array([0])
    pairs = prepared.pairs("train")
    assert pairs.sources(first).tolist() == [4, size - 1, 3]
    assert pairs.targets(first).tolist() == [size - 1, size - 2, 5, 3]


def test_the_longest_sentence_of_all(tmp_path, monkeypatch):
    """Its length just fits into two bytes."""
    monkeypatch.setattr(codecs, "load_tokenizer", _Numbers)
    text = "7 " * 65_534
    prepared = prepare(
        tmp_path,
        MemoryCorpus({"train": [(text, (text,)), (text + "7", ("7",))]}),
        max_tokens=65_535,
        vocabulary_size=9,
        vocabulary=b"9",
    )
    pairs = prepared.pairs("train")
    assert pairs.source_lengths.tolist() == [65_535]
    assert pairs.target_lengths.tolist() == [65_535]
    assert pairs.sources(np.array([0])).tolist() == [7] * 65_534 + [3]


def test_when_all_is_done_nothing_is_done(tmp_path):
    prepare(tmp_path)
    before = contents(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def unread():
        raise AssertionError

    again = MemoryCorpus(splits(train=unread, dev=unread, test=unread))
    # The vocabulary that is there serves as well as the one given before.
    for given in (vocabulary(), None):
        prepared = prepare(tmp_path, again, vocabulary=given)
        assert len(prepared.pairs("train")) == 40
    assert contents(tmp_path) == before
    assert times == {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}


def test_what_else_lies_in_the_folder_is_left_alone(tmp_path):
    mine = {
        "my.ids.npy": b"1",
        "notes": b"2",
        ".hidden.json": b"3",
        "sub/manifest.json": b"{}",
    }
    (tmp_path / "sub").mkdir()
    for name, content in mine.items():
        (tmp_path / name).write_bytes(content)
    prepare(tmp_path)
    assert mine.items() <= contents(tmp_path).items()


def test_the_test_split_is_readable_text(tmp_path):
    test = [("Où ?", ("Where?", "Whereto?"))]
    prepare(tmp_path, MemoryCorpus(splits(test=test)), max_unknown=1)
    text = (tmp_path / "test.json").read_text(encoding="utf-8")
    assert "Où ?" in text
    assert json.loads(text) == {
        "sources": ["Où ?"],
        "references": [["Where?", "Whereto?"]],
    }
