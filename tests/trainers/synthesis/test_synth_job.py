"""A job: killed anywhere, gone on with, refused where it is another."""

import dataclasses
import errno
import json
import os

import pytest

from export.errors import InputError
from export.lines.files import join_lines
from tests.damage import flip_bit
from tests.trainers.data.interruptions import Killed
from tests.trainers.synthesis import jobs
from tests.trainers.synthesis.jobs import (
    PAIRS,
    RULES,
    Job,
    at_write,
    pairs_in,
)
from trainers.data import open_corpus
from trainers.synthesis import manifest


@pytest.fixture
def uninterrupted(tmp_path, monkeypatch):
    """(Job, contents, names in the order they are written)."""
    job = Job(tmp_path, "uninterrupted")
    with at_write(monkeypatch) as names:
        job.run()
    return job, job.contents(), names


def test_the_pairs_are_a_corpus(uninterrupted):
    job, contents, _ = uninterrupted
    assert sorted(contents) == ["manifest.json", "train.aa", "train.bb"]
    corpus = open_corpus(f"text:{job.output}/", "aa", "bb")
    assert [*corpus.pairs("train")] == PAIRS == pairs_in(job.output)


def test_the_manifest_says_what_became_of_each_line(uninterrupted):
    job, contents, _ = uninterrupted
    said = json.loads(contents["manifest.json"])
    counts = {name: each for name, each in said["counts"].items() if each}
    assert counts == {"read": 12, "blank": 1, "duplicate": 2, "written": 9}
    assert said["rules"] == dataclasses.asdict(RULES)
    assert said["input"]["lines"] == 12
    assert list(said["models"][0]["sha256"]) == list(manifest.FILES)


def test_who_is_done_first_makes_no_difference(tmp_path, uninterrupted):
    job = Job(tmp_path)
    job.run(jobs.backwards)
    assert job.contents() == uninterrupted[1]


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_anywhere_the_same_command_goes_on(
    tmp_path, monkeypatch, uninterrupted, when
):
    jobs.assert_goes_on_after_any_kill(
        lambda name: Job(tmp_path, name), monkeypatch, when, uninterrupted[1:]
    )


def test_a_finished_job_is_left_as_it_is(monkeypatch, uninterrupted):
    job, expected, _ = uninterrupted
    with at_write(monkeypatch) as names:
        job.run()
    assert not names
    assert job.contents() == expected


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path, monkeypatch, uninterrupted
):
    _, expected, names = uninterrupted
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for number in range(len(names)):
        job = Job(tmp_path, f"{number}")
        with (
            at_write(monkeypatch, number, "half", full),
            pytest.raises(InputError, match="No space left on device") as e,
        ):
            job.run()
        assert "\n" not in str(e.value)
        assert not any(name.startswith(".") for name in job.contents())
        job.run()
        assert job.contents() == expected


def test_a_full_disk_while_duplicates_are_looked_for(
    tmp_path, monkeypatch, uninterrupted
):
    job = Job(tmp_path)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.TemporaryFile", full)
        with pytest.raises(InputError, match="No space left on device"):
            job.run()
    job.run()
    assert job.contents() == uninterrupted[1]


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A Job that was killed after two shards."""
    job = Job(tmp_path)
    with at_write(monkeypatch, 2), pytest.raises(Killed):
        job.run()
    assert len([*(job.output / "shards").iterdir()]) == 2
    return job


def test_a_damaged_shard_is_made_anew(begun, uninterrupted):
    flip_bit(begun.output / "shards" / "0000001.jsonl")
    begun.run()
    assert begun.contents() == uninterrupted[1]


def test_shards_that_are_there_are_not_asked_for(begun):
    asked = []

    def workers(work, todo):
        for job in todo:
            asked.append(job.number)
            yield job, jobs.answered(job.lines)

    begun.run(workers)
    assert asked == [2, 3]


def refusal(job, message, **changes):
    before = job.contents()
    with pytest.raises(InputError, match=message) as caught:
        job.run(**changes)
    assert job.contents() == before
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("finished", [False, True])
def test_other_lines_are_refused(begun, finished):
    if finished:
        begun.run()
    begun.source = jobs.text_file(begun.folder, [*jobs.TEXT, "more"])
    refusal(begun, "made with an input of 12 lines and SHA-256 .*, not 13")


@pytest.mark.parametrize("finished", [False, True])
def test_another_model_is_refused(begun, finished):
    if finished:
        begun.run()
    begun.model = jobs.made_up_model(begun.folder / "model", b"trained on")
    refusal(begun, "made with the model .*, not .*config.json of SHA-256")


@pytest.mark.parametrize("finished", [False, True])
def test_other_rules_are_refused(begun, finished):
    if finished:
        begun.run()
    rules = dataclasses.replace(RULES, beam_size=2)
    refusal(begun, "made with beam_size None, not 2", rules=rules)


def test_the_same_model_elsewhere_is_the_same(begun, uninterrupted):
    begun.model = jobs.made_up_model(begun.folder / "moved")
    begun.run()
    assert pairs_in(begun.output) == PAIRS


def test_what_only_began_may_begin_anew(tmp_path, monkeypatch):
    """A wrong flag is often told by the models alone."""
    job = Job(tmp_path)

    def workers(work, todo):
        raise InputError("There is no such beam.")

    with pytest.raises(InputError, match="no such beam"):
        job.run(workers)
    assert job.contents() == {}
    rules = dataclasses.replace(RULES, shard_lines=5)
    assert job.run(rules=rules).rules == rules


def test_lines_that_change_under_way_are_seen(tmp_path):
    job = Job(tmp_path)

    def workers(work, todo):
        jobs.text_file(tmp_path, ["other"] * 12)
        return jobs.in_order(work, todo)

    with pytest.raises(InputError, match="text has changed while it was read"):
        job.run(workers)
    # With the old lines it goes on, and keeps nothing of the new ones.
    job.source = jobs.text_file(tmp_path)
    job.run()
    assert pairs_in(job.output) == PAIRS


def test_a_model_that_changes_under_way_is_seen(tmp_path):
    job = Job(tmp_path)

    def workers(work, todo):
        yield from jobs.in_order(work, todo)
        jobs.made_up_model(tmp_path / "model", b"trained on")

    with pytest.raises(InputError, match="model has changed while it was used"):
        job.run(workers)


def test_a_folder_of_something_else_is_refused(tmp_path):
    job = Job(tmp_path)
    job.output.mkdir()
    (job.output / "train.aa").write_text("precious")
    refusal(job, "out holds other files, such as train.aa")


@pytest.mark.parametrize("content", ["{}", "[]", "nothing", '{"format": 2}'])
def test_a_manifest_of_something_else_is_refused(tmp_path, content):
    job = Job(tmp_path)
    job.output.mkdir()
    (job.output / "manifest.json").write_text(content)
    refusal(job, "manifest.json is not the manifest of synthesized pairs")


def test_a_file_in_the_way_is_refused(tmp_path):
    job = Job(tmp_path)
    job.output.write_text("precious")
    with pytest.raises(InputError, match="Cannot use .*out as --output_dir"):
        job.run()


def test_a_finished_job_that_was_damaged_is_told(uninterrupted):
    job, _, _ = uninterrupted
    flip_bit(job.output / "train.bb")
    refusal(job, "train.bb is not as it was written")
    (job.output / "train.bb").unlink()
    refusal(job, "Cannot read .*train.bb")


def test_no_pair_left_is_told(tmp_path):
    job = Job(tmp_path)
    job.source = jobs.text_file(tmp_path, ["", ""])
    with pytest.raises(InputError, match="No pair is left: 2 read, 2 blank"):
        job.run()
    assert "train.aa" not in job.contents()


def test_duplicates_may_be_kept(tmp_path):
    job = Job(tmp_path)
    job.run(rules=dataclasses.replace(RULES, keep_duplicates=True))
    lines = map(join_lines, filter(None, jobs.TEXT))
    assert pairs_in(job.output) == [(line, line.upper()) for line in lines]


def test_a_second_one_in_the_folder_is_refused(tmp_path):
    job = Job(tmp_path)

    def workers(work, todo):
        with pytest.raises(InputError, match="Another synthesis"):
            in_another_process(job)
        return jobs.in_order(work, todo)

    def in_another_process(job):
        # A process' own locks do not stop it.
        import concurrent.futures
        import multiprocessing

        spawn = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
            pool.submit(job.run).result()

    job.run(workers)
