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
from trainers.synthesis.lines import (
    cut_into_shards,
    fingerprint_lines,
    reread_lines,
)
from trainers.synthesis.manifest import (
    FILE,
    Manifest,
    read_manifest,
    write_manifest,
)
from trainers.synthesis.models import validate_unchanged
from trainers.synthesis.shards import ShardStore
from trainers.synthesis.translation_job import TranslationJob

SHARDS_FOLDER = "shards"


def synthesize(folder, source, models, options, workers):
    """Makes a corpus of lines, or goes on with making it.

    Args:
        folder: str, path or URL of where it goes; `text:FOLDER/` is then its
            name.
        source: TextFile or CorpusSide.
        models: tuple of ModelFiles.
        options: SynthesisOptions.
        workers: function of a TranslationJob and an iterator of Job that yields
            (Job, ShardResult) in any order, such as `local_workers.run`.

    Returns:
        Manifest, complete.

    Raises:
        InputError: the lines cannot be read, a model cannot be used, the
            folder holds something else, another job or one of other lines,
            models or options, or the system refused to write.
    """
    folder = place_of(folder)
    _refuse_foreign(folder)
    print(f"Reading {source.name}.", flush=True)
    manifest = Manifest(fingerprint_lines(source), models, options)
    with _alone_in(folder):
        shards = ShardStore(folder / SHARDS_FOLDER)
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
    validate_unchanged(manifest.models)
    counts, outputs = assemble(folder, shards, keys, manifest.options)
    manifest = dataclasses.replace(manifest, counts=counts, outputs=outputs)
    write_manifest(folder, manifest)
    shards.remove()
    return manifest


def _make_shards(manifest, source, shards, workers):
    """Makes the shards that are not there; returns the keys of all."""
    keys, options = [], manifest.options
    lines = reread_lines(source, manifest.input)
    with ProgressBar("Translating", manifest.input.lines, "lines") as bar:

        def missing():
            for job in cut_into_shards(lines, options.shard_lines):
                keys.append(job.key)
                if shards.read(job.number, job.key) is None:
                    yield job
                else:
                    bar.pass_over(len(job.lines))

        work = TranslationJob(manifest.models, options)
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
