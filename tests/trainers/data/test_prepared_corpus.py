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
SHARDS = (
    *("train-00001.ids.npy", "train-00001.lengths.npy"),
    *("dev-00000.ids.npy", "dev-00000.lengths.npy"),
)
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


def test_reading_changes_nothing(folder):
    before = contents(folder)
    corpus = PreparedCorpus(str(folder))
    assert corpus.folder == folder
    assert [len(corpus.pairs(name)) for name in ("train", "dev")] == [40, 9]
    assert corpus.pairs("test") is corpus.pairs("other") is None
    _use(folder)
    _check(folder)
    assert contents(folder) == before


def test_missing_and_unfinished_data_are_refused(tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "gone"):
        assert f"trainers.prepare --output_dir={folder}" in _refused(folder)
    for number in (1, 6):
        folder = tmp_path / f"{number}"
        with at_write(monkeypatch, number), pytest.raises(Killed):
            prepare(folder)
        assert "unfinished" in _refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_damaged_and_missing_files(folder, name):
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
    if name in SHARDS:
        path.write_bytes(content)
        array = np.load(path)
        for dtype in (np.int64, np.float32, "<U3", object):
            np.save(path, array.astype(dtype), allow_pickle=True)
            _refused(folder)
    elif name == "vocabulary.model":
        path.write_bytes(vocabulary(seed=8))
        assert name in _refused(folder)
    path.unlink()
    assert name in _refused(folder) or name == "manifest.json"
    path.mkdir()
    assert name in _refused(folder)


def test_a_manifest_that_leads_out_of_the_folder(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["shards"][0]["name"] = "../train-00000"
    path.write_text(json.dumps(content))
    for end in ("ids", "lengths"):
        name = f"train-00000.{end}.npy"
        (folder / name).rename(folder.parent / name)
    assert "../train-00000" in _refused(folder)


def test_a_test_set_of_somebody_else_is_not_read(tmp_path):
    prepare(tmp_path, MemoryCorpus({"train": rows(5, 1)}))
    (tmp_path / "test.json").write_text('{"sources": [], "references": []}')
    assert PreparedCorpus(tmp_path).test_set() is None
