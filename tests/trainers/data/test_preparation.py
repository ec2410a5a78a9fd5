"""Tokenization of a corpus into shards: order, refusals, kills, full disks."""

import contextlib
import errno
import functools
import itertools
import os
import pathlib
import tempfile
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.common.parallel import map_in_threads
from export.tokenizers.tokenizer import Tokenizer
from tests.trainers import cipher
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    assert_refused,
    byte_vocabulary,
    contents,
    decoded,
    prepare,
    rows,
    splits,
    vocabulary,
)
from trainers.data import codecs
from trainers.data.manifest import read_manifest
from trainers.data.tokenization import Settings, cut_into_chunks, tokenize_chunk

pytestmark = pytest.mark.usefixtures("small_shards")

END, CHUNK = 3, 7


class _Letters:
    """A codec whose ids are the letters' codes; it has none for a z."""

    num_tags, has_both_tags = 0, False

    def explain_unencodable(self, target):
        return f"{target} has a z" if "z" in target else ""

    def encode_sources(self, texts):
        return [np.array([*map(ord, text), END], np.int32) for text in texts]

    encode_targets = encode_sources


def _tokenize(pairs, codec, max_tokens, workers):
    """A generator of the chunks of pairs."""
    tokenize = functools.partial(tokenize_chunk, Settings(codec, max_tokens))
    return map_in_threads(tokenize, cut_into_chunks(pairs), workers)


def _texts(chunks):
    """The pairs as text again."""
    pairs = []
    for chunk in chunks:
        ids = iter(chunk.ids.tolist())
        for lengths in chunk.lengths.tolist():
            pair = [[next(ids) for _ in range(n)] for n in lengths]
            assert all(side[-1] == END for side in pair)
            pairs.append(tuple("".join(map(chr, s[:-1])) for s in pair))
        assert next(ids, None) is None
    return pairs


TEXT = st.text("abc", max_size=6)
TARGET = st.text("abz", max_size=4)


# The fixture does the same for every example.
@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(TEXT, TARGET), max_size=4 * CHUNK),
    *(st.integers(1, 7), st.integers(1, 4)),
)
def test_pairs_come_in_order_without_long_and_unencodable_ones(
    pairs, max_tokens, workers
):
    chunks = list(_tokenize(iter(pairs), _Letters(), max_tokens, workers))
    expected = [
        pair
        for pair in pairs
        if max(map(len, pair)) + 1 <= max_tokens and "z" not in pair[1]
    ]
    assert _texts(chunks) == expected
    assert [chunk.num_read for chunk in chunks[:-1]] == [CHUNK] * (
        len(chunks) - 1
    )
    assert sum(chunk.num_read for chunk in chunks) == len(pairs)
    assert [
        (start + index, reason)
        for start, chunk in zip(range(0, len(pairs), CHUNK), chunks)
        for index, reason in chunk.unencodable
    ] == [
        (index, f"{target} has a z")
        for index, (_, target) in enumerate(pairs)
        if "z" in target
    ]


def test_at_most_two_chunks_per_thread_are_held():
    read, yielded = [], 0

    def endless():
        for number in itertools.count():
            read.append(number)
            yield "s", "t"

    chunks = _tokenize(endless(), _Letters(), 99, workers=3)
    for _ in range(20):
        yielded += next(chunks).num_read
        assert len(read) - yielded == 5 * CHUNK
    chunks.close()
    assert len(read) - yielded == 5 * CHUNK


def test_errors_end_all_threads(tmp_path, monkeypatch):
    class Broken(_Letters):
        def encode_sources(self, texts):
            if "bad" in texts:
                raise MemoryError
            return super().encode_sources(texts)

    pairs = [("a", "b")] * 9 + [("bad", "b")] + [("a", "b")] * 99
    with pytest.raises(MemoryError):
        list(_tokenize(iter(pairs), Broken(), 9, 2))
    with at_write(monkeypatch, 4), pytest.raises(Killed):
        prepare(tmp_path, workers=2)
    # While the error, and with it all that was going on, is still held.
    names = [thread.name for thread in threading.enumerate()]
    assert not any(name.startswith("ThreadPool") for name in names)


def test_the_text_comes_back_from_the_ids(tmp_path):
    test = [("Où ?", ("Where?", "Whereto?"))]
    corpus = MemoryCorpus(splits(test=test))
    prepared = prepare(tmp_path / "one", corpus, max_unknown=1)
    prepared.validate_checksums()
    for split in ("train", "dev"):
        assert decoded(prepared, split) == list(corpus.pairs(split))
    assert prepared.test_set() == corpus.evaluation_set("test")
    assert prepared.vocabulary == vocabulary()
    # Of the shards, three are of train.
    assert len(contents(prepared.folder)) == 2 * (3 + 1) + 3
    # The number of workers changes no byte.
    prepare(tmp_path / "7", corpus, workers=7, max_unknown=1)
    assert contents(tmp_path / "7") == contents(prepared.folder)


def test_without_a_vocabulary_one_is_trained_on_train(tmp_path, monkeypatch):
    # Room for all, in a vocabulary that text of ten syllables can fill.
    monkeypatch.setattr(codecs, "_MAX_CHARACTER_SHARE", 0.5)
    train = rows(800, 1)
    for number in (5, 300, 700):
        train[number] = ("in 1984 (K): 25 %", ("1984 (K) : 25 %",))
    corpus = MemoryCorpus({"train": train})
    prepared = prepare(tmp_path, corpus, vocabulary=None, vocabulary_size=100)
    tokenizer = Tokenizer(prepared.vocabulary)
    assert tokenizer.vocabulary_size == 100
    texts = [text for pair in cipher.sentences(40, 1) for text in pair]
    # Rare characters are known.
    *ids, rare = tokenizer.encode([*texts, "(25): K 1984 %"])
    assert not any((row == 1).any() for row in [*ids, rare])
    assert tokenizer.decode([rare]) == ["(25): K 1984 %"]


def test_long_pairs_are_skipped_and_counted(tmp_path):
    corpus = MemoryCorpus(splits())
    tokenizer = Tokenizer(vocabulary())
    prepared = prepare(tmp_path / "data", corpus, max_tokens=9)
    for split, count in (("train", 40), ("dev", 9)):
        pairs = list(corpus.pairs(split))
        lengths = [[len(tokenizer.encode([t])[0]) for t in p] for p in pairs]
        stored = [n for n, both in enumerate(lengths) if max(both) <= 9]
        assert decoded(prepared, split) == [pairs[n] for n in stored]
        counted = prepared.manifest.splits[split]
        assert (counted.num_read, counted.num_pairs) == (count, len(stored))
        assert counted.num_too_long == count - len(stored) > 0
        assert counted.source.num_tokens == sum(lengths[n][0] for n in stored)
        assert counted.target.num_tokens == sum(lengths[n][1] for n in stored)
    # A shard may be empty.
    long, short = ("ba " * 50, ("yz " * 50,)), ("ba", ("yz",))
    corpus = MemoryCorpus({"train": [long] * 14 + [short]})
    prepared = prepare(tmp_path / "few", corpus, max_tokens=9)
    shards = prepared.manifest.splits["train"].shards
    assert [shard.num_pairs for shard in shards] == [0, 1]
    assert decoded(prepared, "train") == [("ba", "yz")]


class _Numbers:
    """A tokenizer of numbers, with a vocabulary of any size."""

    proto = property(lambda self: vocabulary())

    num_tags, has_both_tags = 0, False
    languages = ()

    def __init__(self, proto):
        self.vocabulary_size = int(proto)

    source = target = property(lambda self: self)

    def encode(self, texts):
        return [np.array([*map(int, t.split()), 3], np.int32) for t in texts]


def test_ids_and_lengths_take_two_bytes_if_they_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(codecs, "load_tokenizer", _Numbers)
    long = "7 " * 65_534
    for size, dtype in ((65_536, np.uint16), (65_537, np.int32)):
        train = [(f"4 {size - 1}", (long,)), (long + "7", ("7",))]
        prepared = prepare(
            tmp_path / f"{size}",
            MemoryCorpus({"train": train}),
            max_tokens=65_535,
            vocabulary_size=size,
            vocabulary=str(size).encode(),
        )
        folder = tmp_path / f"{size}"
        assert np.load(folder / "train-00000.ids.npy").dtype == dtype
        pairs, first = prepared.pairs("train"), np.array([0])
        assert pairs.sources(first).tolist() == [4, size - 1, 3]
        assert pairs.targets(first).tolist() == [7] * 65_534 + [3]
        assert pairs.target_lengths.tolist() == [65_535]


def test_finished_data_are_unchanged(tmp_path):
    prepare(tmp_path)
    before = contents(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def unread():
        raise AssertionError

    again = MemoryCorpus(splits(train=unread, dev=unread, test=unread))
    for model in (vocabulary(), None):
        prepared = prepare(tmp_path, again, vocabulary=model)
        assert len(prepared.pairs("train")) == 40
    assert contents(tmp_path) == before
    assert times == {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}


def test_data_of_another_source(tmp_path, monkeypatch):
    """Finished ones are refused, unfinished ones replaced."""
    other = MemoryCorpus(splits(train=rows(9, 5)), fingerprint="g")
    prepare(tmp_path / "fresh", other)
    with at_write(monkeypatch, 10), pytest.raises(Killed):
        prepare(tmp_path / "killed")
    prepare(tmp_path / "killed", other)
    assert contents(tmp_path / "killed") == contents(tmp_path / "fresh")
    prepare(tmp_path / "data")
    before = contents(tmp_path)
    assert_refused("fingerprint", tmp_path / "data", other)
    assert_refused("max_tokens", tmp_path / "data", max_tokens=50)
    assert_refused("copy_rate", tmp_path / "data", copy_rate=0.5)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("number", [1, None])
def test_data_with_another_vocabulary_are_refused(
    tmp_path, monkeypatch, number
):
    with at_write(monkeypatch, number), contextlib.suppress(Killed):
        prepare(tmp_path)
    before = contents(tmp_path)
    assert_refused("another vocabulary", tmp_path, vocabulary=vocabulary(8))
    assert contents(tmp_path) == before
    # Nor may its own file be another one than before.
    (tmp_path / "vocabulary.model").write_bytes(vocabulary(8))
    assert_refused("vocabulary.model", tmp_path)


def _broken_after(pairs):
    """A split whose last line cannot be read."""

    def iterate():
        yield from pairs
        raise InputError("Line 7 of x.en is not UTF-8.")

    return iterate


LONG = [("ba " * 99, ("yz " * 99,))] * 3
# What is refused: the message, the corpus, and changes of the arguments.
REFUSED = [
    ("has 64 tokens", splits(), {"vocabulary_size": 60}),
    ("'train'", {"dev": rows(5, 1)}, {}),
    ("dev is left", splits(dev=LONG), {"max_tokens": 20}),
    ("Line 7", splits(train=_broken_after(rows(30, 1))), {"vocabulary": None}),
    ("Line 7", splits(test=_broken_after(rows(9, 1))), {}),
]


@pytest.mark.parametrize("match, content, changes", REFUSED)
def test_refusals_leave_nothing(tmp_path, match, content, changes):
    corpus = MemoryCorpus(content)
    assert_refused(match, tmp_path / "new" / "data", corpus, **changes)
    assert not (tmp_path / "new").exists()
    # Nor in a folder with other files, which are kept.
    own = {"notes": b"1", "my.ids.npy": b"2", "sub/manifest.json": b"4"}
    (tmp_path / "sub").mkdir()
    for name, content in own.items():
        (tmp_path / name).write_bytes(content)
    assert_refused(match, tmp_path, corpus, **changes)
    assert contents(tmp_path).keys() == own.keys()


# Some pairs of every shard are longer.
SETTINGS = {"max_tokens": 9, "copy_rate": 0.5, **byte_vocabulary()}


@pytest.fixture
def uninterrupted(tmp_path, monkeypatch):
    """(contents, names of the files in the order they are written)."""
    with at_write(monkeypatch) as names:
        prepared = prepare(tmp_path / "uninterrupted", **SETTINGS)
    for split in prepared.manifest.splits.values():
        # Other pairs are skipped.
        assert all(each.num_pairs > 0 for each in split.shards)
        assert split.num_too_long > 0
    expected = contents(tmp_path / "uninterrupted")
    assert len(names) > 15 and set(names) == set(expected)
    return expected, names


def test_interrupted_at_any_write_the_same_command_resumes(
    tmp_path, monkeypatch, uninterrupted
):
    expected, names = uninterrupted
    moments = itertools.cycle(("before", "half", "after", "after"))
    for number, (name, when) in enumerate(zip(names, moments)):
        folder = tmp_path / f"{number}"
        with at_write(monkeypatch, number, when), pytest.raises(Killed):
            prepare(folder, **SETTINGS, workers=1 + number % 3)
        # SIGKILL leaves nobody to remove its temporary files.
        is_complete = number == len(names) - 1 and when == "after"
        if folder.exists() and not is_complete:
            for left in ("train-00001.ids.npy", "manifest.json"):
                (folder / f".{os.getpid() + 1}.{left}").write_bytes(b"half")
        with at_write(monkeypatch) as again:
            prepare(folder, **SETTINGS, workers=1 + number % 2)
        assert contents(folder) == expected, name
        # Except for the test split, which is small, at most a shard and its
        # manifest are repeated.
        assert len(again) <= max(len(names) - number, 0) + 4


def test_a_full_disk_keeps_finished_shards(
    tmp_path, monkeypatch, uninterrupted
):
    expected, names = uninterrupted
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    refusal = InputError("No space left on device")
    refusal.__cause__ = error
    failures = itertools.cycle((("before", refusal), ("half", error)))
    for number, failure in zip(range(0, len(names), 3), failures):
        folder = tmp_path / f"{number}"
        with (
            at_write(monkeypatch, number, *failure),
            pytest.raises(InputError, match="No space left on device"),
        ):
            prepare(folder, **SETTINGS)
        there = contents(folder) if folder.exists() else {}
        assert not any(each.startswith(".") for each in there)
        shards = [each for each in names[:number] if each.endswith(".npy")]
        assert all(there[each] == expected[each] for each in shards)
        prepare(folder, **SETTINGS)
        assert contents(folder) == expected


def test_segmentations_are_random_and_of_the_same_text(tmp_path, monkeypatch):
    """The same for any number of threads, and after an interruption."""
    prepared = prepare(tmp_path / "k", segmentations=3)
    plain = prepare(tmp_path / "one")
    pairs = prepared.pairs("train")
    assert decoded(prepared, "train") == [*cipher.sentences(40, 1)] * 3
    passes = [pairs.sources(np.arange(n, n + 40)) for n in (0, 40, 80)]
    passes.append(plain.pairs("train").sources(np.arange(40)))
    for one, other in itertools.combinations(passes, 2):
        assert not np.array_equal(one, other)
    # Merges are dropped.
    assert 1.0 < sum(map(len, passes[:3])) / (3 * len(passes[3])) < 1.5
    for split in ("dev", "test"):
        assert prepared.manifest.splits.get(split) == plain.manifest.splits.get(
            split
        )
    other = prepare(tmp_path / "threads", segmentations=3, workers=3)
    assert contents(other.folder) == contents(prepared.folder)
    with at_write(monkeypatch, 13), pytest.raises(Killed):
        prepare(tmp_path / "resumed", segmentations=3)
    assert any((tmp_path / "resumed").glob("train-*.npy"))
    prepare(tmp_path / "resumed", segmentations=3)
    assert contents(tmp_path / "resumed") == contents(prepared.folder)


@settings(max_examples=6, suppress_health_check=[*HealthCheck])
@given(st.lists(st.tuples(*[st.sampled_from("abn")] * 2), max_size=9))
def test_evaluation_pairs_in_train_are_counted(tmp_path, chosen):
    train = rows(40, 1)
    known = [(source, target) for source, (target,) in train]
    others = [("ba", "yz"), *((known[0][0], known[1][1]), known[2]), *chosen]
    parts = splits(test=[(s, (t, "zy")) for s, t in others])
    parts["dev"] = [(source, (target,)) for source, target in others]
    parts["train"] = train + [(source, (source,)) for source, _ in chosen]
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        prepared = prepare(name, MemoryCorpus(parts), max_unknown=1)
        manifest = read_manifest(pathlib.Path(name))
    assert prepared.manifest == manifest
    train = [(source, target) for source, (target,) in parts["train"]]
    for split, overlap in manifest.overlaps.items():
        pairs = [(s, t) for s, ts in parts[split] for t in ts]
        sources = {source for source, _ in train}
        assert overlap.total == len(pairs)
        assert overlap.sources == sum(source in sources for source, _ in pairs)
        assert overlap.pairs == sum(pair in train for pair in pairs)
