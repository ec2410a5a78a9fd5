"""A job from its lines to its corpus; what was done before is kept."""

import contextlib
import dataclasses
import hashlib

from export.errors import InputError
from export.files.atomic import remove_unfinished
from export.files.places import (
    explained,
    is_here,
    names_in,
    place_of,
    readable,
    reason,
)
from export.progress_bar import ProgressBar
from trainers.processes import folder_lock
from trainers.synthesis.assembly import assemble
from trainers.synthesis.lines import jobs_of, read_again, read_through
from trainers.synthesis.manifest import (
    FILE,
    Manifest,
    read_manifest,
    write_manifest,
)
from trainers.synthesis.models import refuse_changed
from trainers.synthesis.shards import Shards
from trainers.synthesis.work import Work

SHARDS_FOLDER = "shards"


def synthesize(folder, source, models, rules, workers):
    """Makes a corpus of lines, or goes on with making it.

    Args:
        folder: str, path or URL of where it goes; `text:FOLDER/` is then its
            name.
        source: TextFile or CorpusSide.
        models: tuple of Model.
        rules: Rules.
        workers: function of a Work and an iterator of Job that yields
            (Job, Made) in any order, such as `local_workers.run`.

    Returns:
        Manifest, complete.

    Raises:
        InputError: the lines cannot be read, a model cannot be used, the
            folder holds something else, another job or one of other lines,
            models or rules, or the system refused to write.
    """
    folder = place_of(folder)
    _refuse_foreign(folder)
    print(f"Reading {source.name}.", flush=True)
    manifest = Manifest(read_through(source), models, rules)
    with _alone_in(folder):
        shards = Shards(folder / SHARDS_FOLDER)
        _clear(folder, shards)
        before = read_manifest(folder)
        if before is not None:
            if before.complete or shards.any():
                _refuse_other(folder, before, manifest)
            if before.complete:
                _check_outputs(folder, before)
                shards.remove()
                return before
        write_manifest(folder, manifest)
        try:
            keys = _make_shards(manifest, source, shards, workers)
        except InputError:
            # A wrong flag, most likely: there is nothing to go on with.
            if not shards.any():
                shards.remove()
                with explained(folder):
                    (folder / FILE).unlink()
            raise
        return _finish(folder, manifest, shards, keys)


def _finish(folder, manifest, shards, keys):
    refuse_changed(manifest.models)
    counts, outputs = assemble(folder, shards, keys, manifest.rules)
    manifest = dataclasses.replace(manifest, counts=counts, outputs=outputs)
    write_manifest(folder, manifest)
    shards.remove()
    return manifest


def _make_shards(manifest, source, shards, workers):
    """Makes the shards that are not there; returns the keys of all."""
    keys, rules = [], manifest.rules
    lines = read_again(source, manifest.input)
    with ProgressBar("Translating", manifest.input.lines, "lines") as bar:

        def missing():
            for job in jobs_of(lines, rules.shard_lines):
                keys.append(job.key)
                if shards.read(job.number, job.key) is None:
                    yield job
                else:
                    bar.pass_over(len(job.lines))

        work = Work(manifest.models, rules)
        for job, made in workers(work, missing()):
            shards.write(job, made)
            bar.update(len(job.lines))
    return keys


def _alone_in(folder):
    # No such lock is known to all that fsspec opens.
    if not is_here(folder):
        return contextlib.nullcontext()
    return folder_lock(folder, "synthesis")


def _clear(folder, shards):
    for pattern in (FILE, "train.*"):
        remove_unfinished(folder, pattern)
    shards.clear()


def _refuse_foreign(folder):
    try:
        there = names_in(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"Cannot use {folder} as --output_dir: {reason(error)}."
        ) from error
    ours = any(FILE in name or name == "synthesis.lock" for name in there)
    if there and not ours:
        raise InputError(
            f"{folder} holds other files, such as {min(there)}; give an empty "
            "or a new --output_dir."
        )


def _refuse_other(folder, before, manifest):
    difference = before.difference(manifest)
    if difference:
        raise InputError(
            f"{folder} was made with {difference}; put back what was there "
            "and give the same flags to go on, or give another --output_dir."
        )


def _check_outputs(folder, manifest):
    for name, digest in manifest.outputs.items():
        path = folder / name
        with readable(path), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise InputError(
                f"{path} is not as it was written; remove {folder} and run the "
                "same command again."
            )
