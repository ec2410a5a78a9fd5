import numpy as np
import pytest

from export.common.errors import InputError
from tests.damage import flip_bit
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    prepare,
    rows,
    vocabulary,
)
from trainers.data.prepared_corpus import PreparedCorpus

pytestmark = pytest.mark.usefixtures("small_shards")


def _use(folder):
    """Opens all that a training opens."""
    corpus = PreparedCorpus(folder)
    for split in ("train", "dev"):
        corpus.pairs(split).sources(np.arange(9))
    corpus.test_set()


def _check(folder):
    PreparedCorpus(folder).check()


def _refused(folder, action=_use):
    with pytest.raises(InputError) as caught:
        action(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_missing_and_unfinished_data_are_refused(tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "gone"):
        assert f"trainers.prepare --output_dir={folder}" in _refused(folder)
    for number in (1, 6):
        folder = tmp_path / f"{number}"
        with at_write(monkeypatch, number), pytest.raises(Killed):
            prepare(folder)
        assert "unfinished" in _refused(folder)


def test_damaged_and_missing_files(tmp_path):
    prepare(tmp_path / "made")
    folder = (tmp_path / "made").rename(tmp_path / "moved")
    _use(folder)
    _check(folder)
    for name in (
        *("manifest.json", "vocabulary.model", "test.json"),
        *("train-00001.ids.npy", "dev-00000.lengths.npy"),
    ):
        path = folder / name
        content = path.read_bytes()
        # The last byte but one: that of a text is its closing bracket.
        flip_bit(path, -2)
        if name.endswith(".ids.npy"):
            # Only the checksum can tell.
            _use(folder)
        else:
            _refused(folder)
        _refused(folder, _check)
        for share in (0.9, 0):
            path.write_bytes(content[: int(share * len(content))])
            _refused(folder)
        path.unlink()
        assert name in _refused(folder) or name == "manifest.json"
        path.write_bytes(content)
    (folder / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert "vocabulary.model" in _refused(folder)


def test_a_test_set_that_is_not_of_the_data_is_not_read(tmp_path):
    prepare(tmp_path, MemoryCorpus({"train": rows(5, 1)}))
    (tmp_path / "test.json").write_text("{}")
    assert PreparedCorpus(tmp_path).test_set() is None
