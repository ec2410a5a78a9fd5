"""Text, pairs and corpora at URLs that fsspec opens."""

import gzip

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from export.errors import InputError
from export.files.places import place_of
from tests.trainers.synthesis import jobs, runs
from tests.trainers.synthesis.jobs import PAIRS, TEXT, Job, at_write, pairs_in
from trainers.data import open_corpus
from trainers.synthesis.lines import TextFile


@pytest.fixture(autouse=True)
def _emptied():
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def remote_job(folder, name="out"):
    job = Job(folder)
    job.output = place_of(f"memory://bucket/{name}")
    return job


def test_the_same_files_as_on_this_machine(tmp_path):
    here, there = Job(tmp_path), remote_job(tmp_path)
    assert here.run() == there.run(jobs.backwards)
    assert here.contents() == there.contents()
    assert sorted(there.contents()) == ["manifest.json", "train.aa", "train.bb"]


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_anywhere_the_same_command_goes_on(tmp_path, monkeypatch, when):
    here = Job(tmp_path)
    with at_write(monkeypatch) as names:
        here.run()
    jobs.assert_goes_on_after_any_kill(
        lambda name: remote_job(tmp_path, name),
        monkeypatch,
        when,
        (here.contents(), names),
    )


def test_a_finished_job_is_left_as_it_is(tmp_path, monkeypatch):
    job = remote_job(tmp_path)
    job.run()
    with at_write(monkeypatch) as names:
        job.run()
    assert not names


def test_a_folder_of_something_else_is_refused(tmp_path):
    job = remote_job(tmp_path)
    (job.output / "train.aa").write_text("precious")
    with pytest.raises(InputError, match="holds other files, such as train.aa"):
        job.run()
    assert job.contents() == {"train.aa": b"precious"}


def test_a_manifest_of_something_else_is_refused(tmp_path):
    job = remote_job(tmp_path)
    (job.output / "manifest.json").write_text("nothing")
    with pytest.raises(InputError, match="is not the manifest of synthesized"):
        job.run()


def test_a_damaged_file_is_told(tmp_path):
    whole = gzip.compress("\n".join(TEXT).encode())
    place_of("memory://text.gz").write_bytes(whole[:-9])
    with pytest.raises(InputError, match="Cannot read memory://text.gz: EOF"):
        [*TextFile("memory://text.gz").lines()]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_is_read(tmp_path, pack):
    packed = pack("\n".join([*TEXT, ""]).encode())
    name = f"memory://text{'.gz' if pack is gzip.compress else ''}"
    place_of(name).write_bytes(packed)
    expected = [*jobs.text_file(tmp_path).lines()]
    assert [*TextFile(name).lines()] == expected


def test_the_pairs_are_a_corpus(tmp_path):
    job = remote_job(tmp_path)
    job.run()
    corpus = open_corpus("text:memory://bucket/out/", "aa", "bb")
    assert [*corpus.pairs("train")] == PAIRS
    here = Job(tmp_path)
    here.run()
    same = open_corpus(f"text:{here.output}/", "aa", "bb")
    assert corpus.fingerprint() == same.fingerprint()


class Unreachable(fsspec.AbstractFileSystem):
    """Raises what no file system of Python's own would."""

    protocol = "unreachable"

    def _open(self, *_, **__):
        raise LookupError("no such\ncredentials")

    ls = info = _open


# UPath says so of every protocol that it does not know.
ignored = pytest.mark.filterwarnings("ignore:UPath 'unreachable' filesystem")


@ignored
@pytest.mark.parametrize(
    "name, message",
    [
        ("nosuch://a", "Cannot use nosuch://a: Unsupported filesystem"),
        ("memory://none", "Cannot read memory://none: No such file"),
        ("unreachable://a", "LookupError: no such credentials"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, message):
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    job = Job(tmp_path)
    job.source = TextFile(name)
    with pytest.raises(InputError, match=message) as caught:
        job.run()
    assert "\n" not in str(caught.value)
    assert not job.output.exists()
    job = Job(tmp_path)
    with pytest.raises(InputError) as caught:
        open_corpus(f"text:{name}/", "aa", "bb")
    assert "\n" not in str(caught.value)


@ignored
def test_what_cannot_be_written_is_told(tmp_path):
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    job = Job(tmp_path)
    job.output = "unreachable://a"
    with pytest.raises(InputError, match="LookupError: no such cred") as caught:
        job.run()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_command_writes_the_same_at_a_url(text, model_path, tmp_path):
    lines = text.read_text("utf-8").splitlines()[:60]
    short = tmp_path / "short"
    short.write_text("\n".join([*lines, ""]), encoding="utf-8")
    here, there = tmp_path / "here", tmp_path / "there"
    for start, output in ((short, here), (short.as_uri(), there.as_uri())):
        said = runs.finish(runs.start(start, model_path, output, "--workers=1"))
    assert f"--dataset=text:{there.as_uri()}/ " in said
    assert runs.contents(here).keys() == runs.contents(there).keys()
    assert pairs_in(here) == pairs_in(there)
