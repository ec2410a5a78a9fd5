"""Jobs without a model: their answers are made of the lines."""

import functools
import pathlib

import pytest

from export.lines.files import join_lines
from tests.trainers.data import interruptions
from trainers.synthesis import assembly, manifest, shards
from trainers.synthesis.filters import Counts
from trainers.synthesis.job import synthesize
from trainers.synthesis.lines import TextFile
from trainers.synthesis.models import FILES, read_model
from trainers.synthesis.rules import Rules
from trainers.synthesis.work import Made

RULES = Rules(
    way="forward", source_language="aa", target_language="bb", shard_lines=3
)
# A blank one, two equal ones in different shards, two in the same.
TEXT = [
    *("one", "two three", "", "four", "five six", "one", "seven", "eight"),
    *("eight", "nine \u2028 ten", "eleven", "twelve"),
]
PAIRS = [
    (line, line.upper())
    for line in (join_lines(line) for line in dict.fromkeys(TEXT))
    if line
]


at_write = functools.partial(
    interruptions.at_write, modules=(assembly, manifest, shards)
)


def answered(lines):
    """The Made of lines: their capitals."""
    pairs = [(line.text, line.text.upper()) for line in lines if line.text]
    blank = len(lines) - len(pairs)
    return Made(Counts(read=len(lines), blank=blank, kept=len(pairs)), pairs)


def in_order(work, jobs):
    """Workers that do one job after the other."""
    return ((job, answered(job.lines)) for job in jobs)


def backwards(work, jobs):
    """Workers that end with the first."""
    return ((job, answered(job.lines)) for job in reversed([*jobs]))


def made_up_model(folder: pathlib.Path, content=b"weights"):
    """The Model of a folder with files that nothing loads."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        (folder / name).write_bytes(content)
    return read_model(folder)


def text_file(folder: pathlib.Path, lines=TEXT) -> TextFile:
    path = folder / "text"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return TextFile(path)


class Job:
    """A job in a folder, with lines and a model beside it."""

    def __init__(self, folder: pathlib.Path, output="out"):
        self.folder = folder
        self.output = folder / output
        self.source = text_file(folder)
        self.model = made_up_model(folder / "model")

    def run(self, workers=in_order, rules=RULES):
        return synthesize(
            self.output, self.source, (self.model,), rules, workers
        )

    def contents(self):
        """All that is in its folder: name to bytes."""
        return {
            path.relative_to(self.output).as_posix(): path.read_bytes()
            for path in self.output.rglob("*")
            if path.is_file()
        }


def assert_goes_on_after_any_kill(job_named, monkeypatch, when, uninterrupted):
    """Kills a job at each of its writes, and has it go on.

    Args:
        job_named: function of a name to a new Job.
        monkeypatch: pytest's.
        when: as of `at_write`.
        uninterrupted: (contents, names in the order they are written) of a
            job that was not killed.
    """
    expected, names = uninterrupted
    assert len(names) == 8
    for number in range(len(names)):
        job = job_named(f"{number}")
        killed = pytest.raises(interruptions.Killed)
        with at_write(monkeypatch, number, when), killed:
            job.run(backwards if number % 2 else in_order)
        (job.output / ".1-00.manifest.json").write_bytes(b"of one killed")
        with at_write(monkeypatch) as again:
            job.run()
        assert job.contents() == expected, names[number]
        assert len(again) <= max(len(names) - number, 0) + 4


def pairs_in(folder: pathlib.Path, languages=("aa", "bb")):
    sides = [
        (folder / f"train.{each}").read_text("utf-8").split("\n")[:-1]
        for each in languages
    ]
    return [*zip(*sides, strict=True)]
