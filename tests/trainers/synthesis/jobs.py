"""Syntheses without a model: the translation of a line is its capitals.

Spawned workers import this module, so it must not import TensorFlow.
"""

import collections
import os
import pathlib
import signal
import time

from export.common.errors import InputError
from export.lines.files import join_lines
from trainers.synthesis.job import synthesize
from trainers.synthesis.shards import (
    LineSource,
    ShardResult,
    cut_into_shards,
    text_source,
)
from trainers.synthesis.workers import (
    FILES,
    SynthesisOptions,
    TranslationJob,
    hash_model_files,
)

OPTIONS = SynthesisOptions(
    direction="forward",
    source_language="aa",
    target_language="bb",
    shard_lines=3,
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


def translated(lines):
    """The ShardResult of lines."""
    pairs = [(line.text, line.text.upper()) for line in lines if line.text]
    return ShardResult(
        collections.Counter(
            read=len(lines),
            blank=len(lines) - len(pairs),
            translated=len(pairs),
        ),
        pairs,
    )


def shards():
    """Fourteen shards of 40 lines."""
    lines = [(f"line {number}", "") for number in range(40)]
    return cut_into_shards(LineSource("lines", lambda: lines), 3)


def dies(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def refuses_some(lines):
    if lines[0].index >= 30:
        raise InputError("This cannot be translated.")
    return translated(lines)


def sleeps(lines):
    print(os.getpid(), flush=True)
    time.sleep(600)


def in_order(job, todo):
    """Workers that do one shard after the other."""
    return ((shard, translated(shard.lines)) for shard in todo)


def backwards(job, todo):
    """Workers that finish the first shard last."""
    return in_order(job, reversed([*todo]))


def made_up_model(folder: pathlib.Path, content=b"weights"):
    """The ModelFiles of a folder with files that nothing loads."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        (folder / name).write_bytes(content)
    return hash_model_files(folder)


def write_text(folder, lines=TEXT):
    """Writes the input; returns its LineSource."""
    path = folder / "text"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return text_source(str(path))


class Synthesis:
    """A synthesis with lines beside its output, both on a disk or at URLs."""

    def __init__(self, folder: pathlib.Path, output):
        self.folder = folder
        self.output = output
        self.source_folder = output.parent
        self.source = write_text(self.source_folder)
        self.model = made_up_model(folder / "model")

    def run(self, workers=in_order, options=OPTIONS):
        job = TranslationJob((self.model,), options)
        return synthesize(self.output, self.source, job, workers)

    def contents(self):
        """All that is in the output: name to bytes."""
        return {
            path.relative_to(self.output).as_posix(): path.read_bytes()
            for path in self.output.rglob("*")
            if path.is_file()
        }


def pairs_in(folder, languages=("aa", "bb")):
    sides = [
        (folder / f"train.{each}").read_text("utf-8").split("\n")[:-1]
        for each in languages
    ]
    return [*zip(*sides, strict=True)]
