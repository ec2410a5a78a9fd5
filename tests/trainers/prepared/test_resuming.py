"""What an interrupted preparing leaves, and how it is gone on with."""

import errno
import os
import threading

import pytest

from export.errors import InputError
from tests.trainers.prepared.interruptions import Killed, at_write
from tests.trainers.prepared.memory_corpus import (
    assert_refused,
    contents,
    prepare,
    vocabulary,
)

pytestmark = pytest.mark.usefixtures("small_shards")
# Some pairs of every shard are longer.
LIMIT = 9


@pytest.fixture
def uninterrupted(tmp_path, monkeypatch):
    """(contents, names of the files in the order they are written)."""
    with at_write(monkeypatch) as names:
        prepared = prepare(tmp_path / "uninterrupted", max_tokens=LIMIT)
    for split in prepared.manifest.splits.values():
        assert all(0 < shard.pairs < shard.read for shard in split.shards)
    return contents(tmp_path / "uninterrupted"), names


def test_there_are_many_points_to_interrupt_it_at(uninterrupted):
    _, names = uninterrupted
    assert len(names) > 15
    assert set(names) == set(uninterrupted[0])
    # In between each shard is told at once.
    first = ["vocabulary.model", "manifest.json", "test.json"]
    assert names[:3] == first
    assert names[-2:] == ["manifest.json", "manifest.json"]


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_interrupted_anywhere_the_same_command_goes_on(
    tmp_path, monkeypatch, uninterrupted, when
):
    expected, names = uninterrupted
    for number in range(len(names)):
        folder = tmp_path / f"{number}"
        with (
            at_write(monkeypatch, number, when),
            pytest.raises(Killed),
        ):
            prepare(folder, max_tokens=LIMIT, workers=1 + number % 3)
        with at_write(monkeypatch) as again:
            prepare(folder, max_tokens=LIMIT, workers=1 + number % 2)
        assert contents(folder) == expected, names[number]
        # It went on rather than began anew: but for the test split, which is
        # small, a shard and its manifest are made again at most.
        assert len(again) <= max(len(names) - number, 0) + 4


def test_interrupted_again_and_again_it_ends_all_the_same(
    tmp_path, monkeypatch, uninterrupted
):
    folder, runs = tmp_path / "data", 0
    while runs < 20:
        runs += 1
        try:
            with at_write(monkeypatch, 4):
                prepare(folder, max_tokens=LIMIT, workers=runs % 3 + 1)
            break
        except Killed:
            continue
    assert 2 < runs < 10
    assert contents(folder) == uninterrupted[0]


def test_what_a_killed_process_left_half_written_is_cleared(
    tmp_path, monkeypatch, uninterrupted
):
    """SIGKILL leaves nobody to remove its temporary files."""
    folder = tmp_path / "data"
    with at_write(monkeypatch, 7), pytest.raises(Killed):
        prepare(folder, max_tokens=LIMIT)
    for name in ("train-00001.ids.npy", "manifest.json", "vocabulary.model"):
        (folder / f".{os.getpid() + 1}.{name}").write_bytes(b"half of it")
    prepare(folder, max_tokens=LIMIT)
    assert contents(folder) == uninterrupted[0]


@pytest.mark.parametrize("when", ["before", "half"])
def test_a_full_disk_keeps_what_was_whole(
    tmp_path, monkeypatch, uninterrupted, when
):
    expected, names = uninterrupted
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for number, name in enumerate(names):
        folder = tmp_path / f"{number}"
        if when == "before":
            full = InputError("No space left on device")
            full.__cause__ = OSError(errno.ENOSPC, "")
        with (
            at_write(monkeypatch, number, when, full),
            pytest.raises(InputError, match="No space left on device") as e,
        ):
            prepare(folder, max_tokens=LIMIT)
        assert "\n" not in str(e.value)
        # Shards that were whole are there and as they will stay.
        there = contents(folder) if folder.exists() else {}
        assert not any(each.startswith(".") for each in there), name
        shards = [each for each in names[:number] if each.endswith(".npy")]
        assert all(there[each] == expected[each] for each in shards)
        prepare(folder, max_tokens=LIMIT)
        assert contents(folder) == expected


def test_no_thread_outlives_an_error(tmp_path, monkeypatch):
    before = threading.enumerate()
    with at_write(monkeypatch, 4), pytest.raises(Killed):
        prepare(tmp_path, workers=2)
    # While the error, and with it all that was going on, is still held.
    assert set(threading.enumerate()) <= set(before)


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_an_unfinished_folders_vocabulary_is_not_its_own(
    tmp_path, monkeypatch, damage
):
    """Half of the data with one and half with another would be garbage."""
    with at_write(monkeypatch, 5), pytest.raises(Killed):
        prepare(tmp_path)
    if damage == "gone":
        (tmp_path / "vocabulary.model").unlink()
    else:
        (tmp_path / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert_refused("vocabulary.model", tmp_path)
