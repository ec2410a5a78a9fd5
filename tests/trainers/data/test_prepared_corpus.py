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
    splits,
    vocabulary,
)
from trainers.data.prepared_corpus import PreparedCorpus

pytestmark = pytest.mark.usefixtures("small_shards")
SHARDS = (
    "train-00001.ids.npy",
    "train-00001.lengths.npy",
    "dev-00000.ids.npy",
    "dev-00000.lengths.npy",
)
FILES = ("manifest.json", "vocabulary.model", "test.json", *SHARDS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Prepared data that no test may change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainers.data.shards._CHUNK", 7)
        patch.setattr("trainers.data.preparation._SHARD_CHUNKS", 2)
        folder = tmp_path_factory.mktemp("whole") / "data"
        prepare(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """A copy, which also shows that data can be moved."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, content in contents(whole).items():
        (folder / name).write_bytes(content)
    return folder


def _use(folder):
    """Opens all that a training opens."""
    corpus = PreparedCorpus(folder)
    for split in ("train", "dev"):
        pairs = corpus.pairs(split)
        every = np.arange(len(pairs))
        pairs.sources(every)
        pairs.targets(every)
    corpus.test_set()
    return corpus


def _refused(folder, action=_use):
    with pytest.raises(InputError) as caught:
        action(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def _check(folder):
    PreparedCorpus(folder).check()


def test_its_content(folder):
    before = contents(folder)
    corpus = PreparedCorpus(str(folder))
    assert corpus.folder == folder
    assert corpus.vocabulary == vocabulary()
    assert corpus.manifest.source.dataset == "memory"
    assert [len(corpus.pairs(name)) for name in ("train", "dev")] == [40, 9]
    assert corpus.pairs("test") is corpus.pairs("other") is None
    assert corpus.test_set() == MemoryCorpus(splits()).evaluation_set("test")
    _use(folder).check()
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
    for kept in (0.9, 0.3, 0):
        path.write_bytes(content[: int(kept * len(content))])
        assert "prepare" in _refused(folder)
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
    _refused(folder, _check)
    path.mkdir()
    assert name in _refused(folder)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, "<U3", object])
def test_an_array_of_another_type(folder, dtype):
    for name in SHARDS[:2]:
        array = np.load(folder / name)
        np.save(folder / name, array.astype(dtype), allow_pickle=True)
        _refused(folder)
        np.save(folder / name, array)


def test_another_vocabulary_in_place_of_its_own(folder):
    (folder / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert "vocabulary.model" in _refused(folder)


def test_a_manifest_that_leads_out_of_the_folder(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["shards"][0]["name"] = "../train-00000"
    path.write_text(json.dumps(content))
    for end in ("ids", "lengths"):
        name = f"train-00000.{end}.npy"
        (folder / name).rename(folder.parent / name)
    assert "../train-00000" in _refused(folder)


def test_a_corpus_without_test_has_no_test_set(tmp_path):
    corpus = prepare(tmp_path, MemoryCorpus({"train": rows(5, 1)}))
    assert corpus.test_set() is None
    corpus.check()
    # Nor is a file that came from elsewhere one.
    (tmp_path / "test.json").write_text('{"sources": [], "references": []}')
    assert PreparedCorpus(tmp_path).test_set() is None
