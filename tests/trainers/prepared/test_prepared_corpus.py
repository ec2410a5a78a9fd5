import json
import re

import numpy as np
import pytest

from export.errors import InputError
from tests.damage import flip_bit
from tests.trainers.prepared.interruptions import Killed, at_write
from tests.trainers.prepared.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    rows,
    splits,
    vocabulary,
)
from trainers.prepared.prepared_corpus import PreparedCorpus

pytestmark = pytest.mark.usefixtures("small_shards")
SHARDS = (
    "train-00001.ids.npy",
    "train-00001.lengths.npy",
    "dev-00000.ids.npy",
    "dev-00000.lengths.npy",
)
FILES = ("manifest.json", "vocabulary.model", "test.json", *SHARDS)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    prepare(folder)
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


def _assert_refused(folder, action=_use):
    with pytest.raises(InputError) as caught:
        action(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_it_says_what_it_holds(folder):
    corpus = PreparedCorpus(str(folder))
    assert corpus.folder == folder
    assert corpus.vocabulary == vocabulary()
    assert corpus.manifest.source.dataset == "memory"
    assert [len(corpus.pairs(name)) for name in ("train", "dev")] == [40, 9]
    assert corpus.pairs("test") is corpus.pairs("other") is None
    assert corpus.test_set() == MemoryCorpus(splits()).evaluation_set("test")
    corpus.check()


def test_opening_it_writes_nothing(folder):
    before = contents(folder)
    _use(folder).check()
    assert contents(folder) == before


def test_it_can_be_moved(folder, tmp_path_factory):
    moved = tmp_path_factory.mktemp("moved") / "data"
    folder.rename(moved)
    _use(moved).check()


@pytest.mark.parametrize("made", [True, False])
def test_where_there_are_none_it_says_how_to_make_them(tmp_path, made):
    folder = tmp_path / "data"
    if made:
        folder.mkdir()
    message = _assert_refused(folder)
    assert "There are no prepared data" in message
    assert f"trainers.prepare --output_dir={folder}" in message


@pytest.mark.parametrize("number", [1, 6])
def test_unfinished_data_are_refused(tmp_path, monkeypatch, number):
    with at_write(monkeypatch, number), pytest.raises(Killed):
        prepare(tmp_path)
    assert "only unfinished prepared data" in _assert_refused(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_truncated_file(folder, name, kept):
    path = folder / name
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    message = _assert_refused(folder)
    assert re.search("prepare (the data|them) again", message)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    message = _assert_refused(folder)
    assert name in message or name == "manifest.json"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file(folder, name):
    (folder / name).unlink()
    (folder / name).mkdir()
    assert name in _assert_refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_an_altered_byte(folder, name):
    """Found when it is opened, or by `check` where only the ids could tell."""
    path = folder / name
    # The last but one: that of a text is its closing bracket.
    flip_bit(path, -2)
    if name.endswith(".ids.npy"):
        _use(folder)
        message = _assert_refused(folder, lambda f: PreparedCorpus(f).check())
        assert f"Shard {name.partition('.')[0]}" in message
    else:
        _assert_refused(folder)


@pytest.mark.parametrize("name", ["test.json", *SHARDS])
def test_check_finds_what_a_training_may_not_open(folder, name):
    (folder / name).unlink()
    _assert_refused(folder, lambda f: PreparedCorpus(f).check())


@pytest.mark.parametrize("name", SHARDS)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, "<U3", object])
def test_an_array_of_another_type(folder, name, dtype):
    array = np.load(folder / name).astype(dtype)
    np.save(folder / name, array, allow_pickle=True)
    _assert_refused(folder)


def test_another_vocabulary_in_place_of_its_own(folder):
    (folder / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert "vocabulary.model is not what" in _assert_refused(folder)


def test_a_manifest_that_leads_out_of_the_folder(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["shards"][0]["name"] = "../train-00000"
    path.write_text(json.dumps(content))
    for end in ("ids", "lengths"):
        name = f"train-00000.{end}.npy"
        (folder / name).rename(folder.parent / name)
    assert "is no name of a shard" in _assert_refused(folder)


def test_a_corpus_without_test_has_no_test_set(tmp_path):
    corpus = prepare(tmp_path, MemoryCorpus({"train": rows(5, 1)}))
    assert corpus.test_set() is None
    corpus.check()
    # Nor is a file that came from elsewhere one.
    (tmp_path / "test.json").write_text('{"sources": [], "references": []}')
    assert PreparedCorpus(tmp_path).test_set() is None
