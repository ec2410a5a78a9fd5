"""Translates all lines to a corpus; skips finished shards."""

import collections
import contextlib
import dataclasses
import hashlib
import itertools

from export.common.atomic_files import remove_temporary_files, write_json
from export.common.errors import InputError
from export.common.paths import explain_file_errors, is_local, resolve_path
from export.common.processes import folder_lock
from export.common.progress_bar import ProgressBar
from trainers.synthesis.manifest import (
    MANIFEST_FILE,
    OUTCOMES,
    Manifest,
    format_counts,
    read_manifest,
    validate_output_folder,
    validate_same,
)
from trainers.synthesis.models import (
    FILES,
    TranslationJob,
    validate_unchanged,
)
from trainers.synthesis.shards import ShardStore, assemble, cut_into_shards


def synthesize(folder, source, models, options, workers):
    """Translates lines to a corpus, or resumes that; returns the Manifest.

    Args:
        folder: path or URL of the output; the corpus is `text:FOLDER/`.
        source: LineSource.
        models: tuple of ModelFiles.
        options: SynthesisOptions.
        workers: function of a TranslationJob and an iterator of Shard that
            yields (Shard, ShardResult) in any order, such as
            `workers.run_local`.

    Raises:
        InputError: the lines cannot be read, a model cannot be used, the
            folder cannot be written or holds other files, or pairs of other
            lines, models or options.
    """
    folder = resolve_path(folder)
    validate_output_folder(folder, MANIFEST_FILE, "synthesis.lock")
    print(f"Reading {source.name}.", flush=True)
    keys, manifest = _describe(source, models, options)
    with _lock(folder):
        store = ShardStore(folder / "shards")
        _remove_unfinished(folder, store)
        before = read_manifest(folder)
        if before and (before.counts or not store.is_empty()):
            validate_same(folder, before, manifest)
        languages = options.source_language, options.target_language
        paths = [folder / f"train.{code}" for code in languages]
        if before and before.counts and _all_exist(folder, paths):
            store.remove()
            return before
        write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))
        job = TranslationJob(models, options)
        try:
            counts = _translate_shards(
                job, source, keys, manifest.input["lines"], store, workers
            )
        except InputError:
            # Probably a wrong flag; there is nothing to resume.
            if store.is_empty():
                store.remove()
                with explain_file_errors(folder):
                    (folder / MANIFEST_FILE).unlink()
            raise
        validate_unchanged(models)
        if not counts["translated"]:
            raise InputError(
                f"No pair is left: {format_counts(counts)}; give other lines "
                "or softer filters, and another --output_dir."
            )
        written = assemble(paths, store, keys, options.keep_duplicates)
        counts["written"] = written
        counts["duplicate"] = counts["translated"] - written
        counts = {name: counts[name] for name in OUTCOMES}
        manifest = dataclasses.replace(manifest, counts=counts)
        write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))
        store.remove()
        return manifest


def _describe(source, models, options):
    """Reads all lines; returns the keys of the shards and the Manifest."""
    num_lines, keys, digest = 0, [], hashlib.sha256()
    for shard in cut_into_shards(source, options.shard_lines):
        num_lines += len(shard.lines)
        keys.append(shard.key)
        digest.update(shard.key.encode())
    return keys, Manifest(
        input={
            "name": source.name,
            "lines": num_lines,
            "sha256": digest.hexdigest(),
        },
        models=[
            {"path": model.path, "sha256": dict(zip(FILES, model.sha256))}
            for model in models
        ],
        options=dataclasses.asdict(options),
    )


def _translate_shards(job, source, keys, total, store, workers):
    """Writes the missing shards; returns the counts of all shards."""
    counts = collections.Counter()
    with ProgressBar("Translating", total, "lines") as bar:

        def missing():
            shards = cut_into_shards(source, job.options.shard_lines)
            for key, shard in itertools.zip_longest(keys, shards):
                if shard is None or shard.key != key:
                    raise InputError(
                        f"{source.name} has changed while it was read; put "
                        "back what was there and run the same command again, "
                        "or use another --output_dir."
                    )
                result = store.read(shard.number, key)
                if result is None:
                    yield shard
                else:
                    counts.update(result.counts)
                    bar.skip(len(shard.lines))

        for shard, result in workers(job, missing()):
            store.write(shard, result)
            counts.update(result.counts)
            bar.update(len(shard.lines))
    return counts


def _lock(folder):
    # fsspec has no lock that works on all its file systems.
    if not is_local(folder):
        return contextlib.nullcontext()
    return folder_lock(folder, "synthesis")


def _remove_unfinished(folder, store):
    for pattern in (MANIFEST_FILE, "train.*"):
        remove_temporary_files(folder, pattern)
    store.remove_temporary_files()


def _all_exist(folder, paths):
    with explain_file_errors(folder):
        return all(path.exists() for path in paths)
