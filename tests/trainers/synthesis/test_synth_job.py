"""A synthesis: killed anywhere, resumed, refused if it is another one."""

import dataclasses
import functools
import itertools
import json

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from export.common import storage
from export.common.errors import InputError
from export.common.storage import resolve_path
from export.lines.files import join_lines
from tests.damage import flip_bit
from tests.trainers.data import interruptions
from tests.trainers.data.interruptions import Killed
from tests.trainers.data.memory_corpus import refused
from tests.trainers.synthesis import jobs
from tests.trainers.synthesis.jobs import (
    OPTIONS,
    PAIRS,
    TEXT,
    Synthesis,
    pairs_in,
)
from trainers.data import open_corpus
from trainers.synthesis import shards

at_write = functools.partial(interruptions.at_write, modules=(storage, shards))


@pytest.fixture(params=["path", "url"])
def new(request, tmp_path):
    """Function from a name to a new Synthesis, on a disk or at a URL."""
    root = tmp_path
    if request.param == "url":
        root = resolve_path("memory://bucket")
    yield lambda name="out": Synthesis(tmp_path, root / name)
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def uninterrupted(new, monkeypatch):
    """(contents, names in the order they are written)."""
    synthesis = new("uninterrupted")
    with at_write(monkeypatch) as names:
        synthesis.run()
    assert len(names) == 8
    return synthesis.contents(), names


def test_pairs_are_a_corpus_and_all_lines_are_counted(new, uninterrupted):
    synthesis = new()
    counts = synthesis.run(jobs.backwards).counts
    assert {name: each for name, each in counts.items() if each} == {
        **{"read": 12, "blank": 1, "duplicate": 2, "written": 9}
    }
    contents = synthesis.contents()
    assert contents == uninterrupted[0]
    assert sorted(contents) == ["manifest.json", "train.aa", "train.bb"]
    corpus = open_corpus(f"text:{synthesis.output}/", "aa", "bb")
    assert [*corpus.pairs("train")] == PAIRS
    assert json.loads(contents["manifest.json"])["counts"] == counts


def test_killed_anywhere_the_same_command_resumes(
    new, monkeypatch, uninterrupted
):
    expected, names = uninterrupted
    moments = ("before", "half", "after")
    for number, when in itertools.product(range(len(names)), moments):
        synthesis = new(f"{number}-{when}")
        killed = pytest.raises(Killed)
        workers = jobs.backwards if number % 2 else jobs.in_order
        with at_write(monkeypatch, number, when), killed:
            synthesis.run(workers)
        (synthesis.output / ".1-00.manifest.json").write_bytes(b"unfinished")
        with at_write(monkeypatch) as again:
            synthesis.run()
        assert synthesis.contents() == expected, names[number]
        # Finished shards are not written again.
        assert len(again) <= max(len(names) - number, 0) + 4
        with at_write(monkeypatch) as again:
            synthesis.run()
        assert not again


@pytest.fixture
def begun(new, monkeypatch):
    """A Synthesis that was killed after two shards."""
    synthesis = new()
    with at_write(monkeypatch, 2), pytest.raises(Killed):
        synthesis.run()
    assert len([*(synthesis.output / "shards").iterdir()]) == 2
    return synthesis


def test_what_is_damaged_or_missing_is_translated_again(begun, uninterrupted):
    flip_bit(begun.output / "shards" / "0000001.jsonl")
    asked = []

    def workers(job, todo):
        for shard in todo:
            asked.append(shard.index)
            yield shard, jobs.translated(shard.lines)

    begun.run(workers)
    assert asked == [1, 2, 3]
    assert begun.contents() == uninterrupted[0]
    # So is an output that is missing.
    (begun.output / "train.bb").unlink()
    begun.run()
    assert begun.contents() == uninterrupted[0]


def assert_refused(synthesis, message, **changes):
    before = synthesis.contents()
    with refused(message):
        synthesis.run(**changes)
    assert synthesis.contents() == before


@pytest.mark.parametrize("finished", [False, True])
def test_other_lines_models_and_options_are_refused(begun, finished):
    if finished:
        begun.run()
    options = dataclasses.replace(OPTIONS, beam_size=2)
    assert_refused(begun, "beam_size", options=options)
    jobs.write_text(begun.source_folder, [*TEXT, "more"])
    assert_refused(begun, "12 lines .*, not 13")
    jobs.write_text(begun.source_folder)
    model = begun.model
    begun.model = jobs.made_up_model(begun.folder / "model", b"other")
    assert_refused(begun, "config.json of SHA-256")
    # The same files elsewhere are the same model.
    begun.model = jobs.made_up_model(begun.folder / "moved")
    assert begun.model.path != model.path
    begun.run()
    assert pairs_in(begun.output) == PAIRS


def test_lines_and_models_that_change_meanwhile_are_refused(begun):
    def change_lines(job, todo):
        jobs.write_text(begun.source_folder, ["other"] * 12)
        return jobs.in_order(job, todo)

    def change_model(job, todo):
        yield from jobs.in_order(job, todo)
        jobs.made_up_model(begun.folder / "model", b"other")

    assert_refused(begun, "text has changed", workers=change_lines)
    jobs.write_text(begun.source_folder)
    with pytest.raises(InputError, match="model has changed"):
        begun.run(change_model)
    jobs.made_up_model(begun.folder / "model")
    begun.run()
    assert pairs_in(begun.output) == PAIRS


def test_a_folder_of_something_else_is_refused(new):
    for name, content in (
        ("train.aa", "precious"),
        ("manifest.json", "[]"),
        ("manifest.json", '{"other": 9}'),
    ):
        synthesis = new(f"{len(content)}")
        synthesis.output.mkdir(parents=True)
        (synthesis.output / name).write_text(content)
        assert_refused(synthesis, name)


def test_no_pair_is_refused_and_duplicates_can_be_kept(new):
    synthesis = new("blank")
    jobs.write_text(synthesis.source_folder, ["", ""])
    with pytest.raises(InputError, match="2 read, 2 blank"):
        synthesis.run()
    assert "train.aa" not in synthesis.contents()
    synthesis = new()
    synthesis.run(options=dataclasses.replace(OPTIONS, keep_duplicates=True))
    lines = map(join_lines, filter(None, TEXT))
    expected = [(line, line.upper()) for line in lines]
    assert pairs_in(synthesis.output) == expected


def test_a_second_one_in_the_folder_is_refused(tmp_path):
    synthesis = Synthesis(tmp_path, tmp_path / "out")

    def workers(job, todo):
        with pytest.raises(InputError, match="Another synthesis"):
            synthesis.run()
        return jobs.in_order(job, todo)

    synthesis.run(workers)
