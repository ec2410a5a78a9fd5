import json

import numpy as np
import pytest

from export.common.errors import InputError
from tests.damage import flip_bit
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    rows,
    vocabulary,
)
from trainers.data.prepared_corpus import PreparedCorpus

pytestmark = pytest.mark.usefixtures("small_shards")
SHARDS = ("train-00001.ids.npy", "dev-00000.lengths.npy")
FILES = ("manifest.json", "vocabulary.model", "test.json", *SHARDS)


@pytest.fixture
def folder(tmp_path):
    """Prepared data, moved to another folder."""
    prepare(tmp_path / "made")
    return (tmp_path / "made").rename(tmp_path / "data")


def _use(folder):
    """Opens all that a training opens."""
    corpus = PreparedCorpus(folder)
    for split in ("train", "dev"):
        pairs = corpus.pairs(split)
        every = np.arange(len(pairs))
        pairs.sources(every)
        pairs.targets(every)
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


def test_damaged_and_missing_files(folder):
    before = contents(folder)
    _use(folder)
    _check(folder)
    # Reading changes nothing.
    assert contents(folder) == before
    for name in FILES:
        path = folder / name
        content = path.read_bytes()
        for share in (0.9, 0.3, 0):
            path.write_bytes(content[: int(share * len(content))])
            _refused(folder)
        path.write_bytes(content)
        # The last but one: that of a text is its closing bracket.
        flip_bit(path, -2)
        if name.endswith(".ids.npy"):
            # Only the checksum can tell.
            _use(folder)
        else:
            _refused(folder)
        _refused(folder, _check)
        path.unlink()
        assert name in _refused(folder) or name == "manifest.json"
        path.mkdir()
        assert name in _refused(folder)
        path.rmdir()
        path.write_bytes(content)
    (folder / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert "vocabulary.model" in _refused(folder)


def test_what_is_not_of_the_data_is_not_read(folder, tmp_path):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["shards"][0]["name"] = "../train-00000"
    path.write_text(json.dumps(content))
    for end in ("ids", "lengths"):
        name = f"train-00000.{end}.npy"
        (folder / name).rename(folder.parent / name)
    assert "../train-00000" in _refused(folder)
    prepare(tmp_path / "no_test", MemoryCorpus({"train": rows(5, 1)}))
    (tmp_path / "no_test" / "test.json").write_text("{}")
    assert PreparedCorpus(tmp_path / "no_test").test_set() is None
