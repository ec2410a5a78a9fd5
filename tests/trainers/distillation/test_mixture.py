"""The corpus of the original and what teachers said."""

import pytest

from export.errors import InputError
from tests.export import conftest
from tests.trainers import cipher
from trainers.data import open_corpus
from trainers.distillation.mixture import mix

small_disk = conftest.small_disk

PAIRS = [("a b", "x y"), ("c", "z"), ("a b", "x y"), ("d", "w")]
SAID = [[("a b", "x y"), ("c", "zz")], [("c", "zz"), ("d", "v v")]]


def _write(folder, split, pairs):
    folder.mkdir(exist_ok=True)
    cipher.write_split(folder, split, *zip(*pairs))


@pytest.fixture
def original(tmp_path):
    folder = tmp_path / "original"
    _write(folder, "train", PAIRS)
    _write(folder, "dev", [("a", "x")])
    _write(folder, "test", [("a", "x"), ("", "y"), ("b", "y")])
    (folder / "test.xx.1").write_text("xx\n\n\n")
    return _open(folder)


@pytest.fixture
def taught(tmp_path):
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder, pairs in zip(folders, SAID):
        _write(folder, "train", pairs)
    return folders


def _open(folder):
    return open_corpus(f"text:{folder}/", cipher.SOURCE, cipher.TARGET)


def test_each_pair_is_there_once_and_the_other_splits_are_the_same(
    original, taught, tmp_path
):
    mixed = tmp_path / "mixed"
    assert mix(mixed, original, taught, True) == (5, 3)
    found = _open(mixed)
    expected = dict.fromkeys([*PAIRS, *SAID[0], *SAID[1]])
    assert list(found.pairs("train")) == list(expected)
    for split in ("dev", "test"):
        there, here = (c.evaluation_set(split) for c in (original, found))
        assert there == here
    assert len(here.references[0]) == 2


def test_the_original_can_be_left_out(original, taught, tmp_path):
    assert mix(tmp_path / "mixed", original, taught, False) == (3, 1)
    found = list(_open(tmp_path / "mixed").pairs("train"))
    assert found == list(dict.fromkeys([*SAID[0], *SAID[1]]))


def test_what_is_not_there_is_told(original, tmp_path):
    with pytest.raises(InputError, match=r"Cannot read .*none/train\.en"):
        mix(tmp_path / "mixed", original, [tmp_path / "none"], True)


def test_a_really_full_disk_is_told(original, small_disk, tmp_path):
    pairs = [(f"{number:050}", "x" * 50) for number in range(40_000)]
    _write(tmp_path / "much", "train", pairs)
    with pytest.raises(InputError, match="Cannot write .*No space left"):
        mix(small_disk / "mixed", original, [tmp_path / "much"], True)
    assert not [*small_disk.glob("mixed/*train*")]
