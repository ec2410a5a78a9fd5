"""Translates all lines to a corpus, and resumes after an interruption."""

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import typing
from collections.abc import Callable, Iterable, Mapping

from export.common.errors import InputError
from export.common.processes import folder_lock
from export.common.progress_bar import ProgressBar
from export.common.storage import (
    AnyPath,
    error_reason,
    explain_file_errors,
    explain_read_errors,
    is_local,
    list_names,
    remove_temporary_files,
    resolve_path,
    write_json,
)
from trainers.synthesis.shards import (
    LineSource,
    Shard,
    ShardResult,
    ShardStore,
    cut_into_shards,
    write_corpus,
)

if typing.TYPE_CHECKING:
    from trainers.synthesis.teacher import TeacherJob
    from trainers.synthesis.workers import TranslationJob

MANIFEST_FILE = "manifest.json"
# Names of the counts, in the order of the report.
OUTCOMES: tuple[str, ...] = ("read", "blank", "too_long", "empty_translation")
OUTCOMES += ("length_ratio", "low_score", "cut_off", "several_lines", "suspect")
OUTCOMES += ("prompt_tokens", "answer_tokens", "duplicate", "written")
# Errors of malformed JSON and unexpected types.
_INVALID = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def synthesize(
    folder: "str | AnyPath",
    source: LineSource,
    job: "TranslationJob | TeacherJob",
    run_job: Callable[..., Iterable[tuple[Shard, ShardResult]]],
) -> "Manifest":
    """Translates lines to the corpus `text:FOLDER/`; returns the Manifest.

    Resumes an interrupted synthesis. Raises InputError if the folder, a path or
    URL, holds other files, or pairs of other lines, models or options. `source`
    is a LineSource, `job` a TranslationJob or TeacherJob, and `run_job` a
    function of it and an iterator of Shards that yields (Shard, ShardResult).
    """
    options = job.options
    folder = resolve_path(folder)
    validate_output_folder(folder, MANIFEST_FILE, "synthesis.lock")
    print(f"Reading {source.name}.", flush=True)
    digests, manifest = _read_source(source, job)
    # fsspec has no lock that works on all its file systems.
    lock: contextlib.AbstractContextManager = contextlib.nullcontext()
    if is_local(folder):
        lock = folder_lock(folder, "synthesis")
    with lock:
        store = ShardStore(folder / "shards")
        remove_temporary_files(folder, MANIFEST_FILE)
        remove_temporary_files(folder, "train.*")
        remove_temporary_files(store.folder, "*.jsonl")
        previous = read_manifest(folder)
        if previous and (previous.counts or not store.is_empty()):
            validate_same_settings(folder, previous, manifest)
        languages = options.source_language, options.target_language
        paths = [folder / f"train.{code}" for code in languages]
        with explain_file_errors(folder):
            is_written = all(path.exists() for path in paths)
        if previous and previous.counts and is_written:
            store.remove()
            return previous
        write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))
        num_lines = manifest.input["lines"]
        counts = _translate_shards(
            job, source, digests, num_lines, store, run_job
        )
        job.validate_unchanged()
        if not counts["translated"]:
            raise InputError(
                f"No pair is left: {format_counts(counts)}; give other lines "
                "or filters, and another --output_dir."
            )
        num_written = write_corpus(
            paths, store, digests, options.keep_duplicates
        )
        counts["written"] = num_written
        counts["duplicate"] = counts["translated"] - num_written
        manifest = dataclasses.replace(
            manifest, counts={name: counts[name] for name in OUTCOMES}
        )
        write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))
        store.remove()
        return manifest


def _read_source(source, job):
    """Returns the SHA-256 of each shard's lines, and a Manifest of no pairs."""
    num_lines, digests = 0, []
    for shard in cut_into_shards(source, job.options.shard_lines):
        num_lines += len(shard.lines)
        digests.append(shard.sha256)
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()
    return digests, Manifest(
        input={"name": source.name, "lines": num_lines, "sha256": digest},
        models=job.describe_models(),
        options=dataclasses.asdict(job.options),
    )


def _translate_shards(job, source, digests, num_lines, store, run_job):
    """Writes the missing shards; returns the counts of all shards."""
    counts = collections.Counter()
    with ProgressBar("Translating", num_lines, "lines") as bar:

        def missing_shards():
            shards = cut_into_shards(source, job.options.shard_lines)
            for digest, shard in itertools.zip_longest(digests, shards):
                if shard is None or shard.sha256 != digest:
                    raise InputError(
                        f"{source.name} has changed while it was read; restore "
                        "it, or use another --output_dir."
                    )
                result = store.read(shard.index, digest)
                if result is None:
                    yield shard
                else:
                    counts.update(result.counts)
                    bar.skip(len(shard.lines))

        for shard, result in run_job(job, missing_shards()):
            store.write(shard, result)
            counts.update(result.counts)
            bar.update(len(shard.lines))
    return counts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """Content of manifest.json; `counts` of `OUTCOMES` are {} until the end."""

    input: dict
    models: list
    options: dict
    counts: dict = dataclasses.field(default_factory=dict)

    def settings(self) -> dict[str, typing.Any]:
        """Returns all that determines the pairs, as a dict for messages."""
        digests = [
            f"{name} of SHA-256 {digest[:12]}"
            for model in self.models
            for name, digest in model["sha256"].items()
        ]
        return {
            **self.options,
            "an input of": f"{self.input['lines']:,} lines and SHA-256 "
            f"{self.input['sha256'][:12]}",
            "the model": ", ".join(digests),
        }


def format_counts(counts: Mapping[str, int]) -> str:
    """Formats the `counts` of a Manifest."""
    words = [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join(words).replace("_", " ")


def validate_output_folder(folder: AnyPath, *own_names: str) -> None:
    """Raises InputError if a folder holds files, but none of `own_names`."""
    try:
        names = list_names(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"Cannot use {folder} as --output_dir: {error_reason(error)}."
        ) from error
    # Names of temporary files contain the final name.
    if names and not any(own in name for own in own_names for name in names):
        raise InputError(
            f"{folder} holds other files, such as {min(names)}; give an empty "
            "or a new --output_dir."
        )


def read_manifest(folder: AnyPath) -> Manifest | None:
    """Returns the Manifest of a folder, or None; InputError if malformed."""
    path = folder / MANIFEST_FILE
    try:
        with explain_read_errors(path):
            if not path.exists():
                return None
            text = path.read_text(encoding="utf-8")
        manifest = Manifest(**json.loads(text))
        # These raise on malformed values.
        manifest.settings()
        format_counts(manifest.counts)
        return manifest
    except _INVALID as error:
        raise InputError(
            f"{path} is not the manifest of synthesized pairs ({error!r}); "
            "give another --output_dir."
        ) from error


def validate_same_settings(
    folder: AnyPath, previous: Manifest, manifest: Manifest
) -> None:
    """Raises InputError if two manifests describe different pairs."""
    settings = manifest.settings()
    for name, value in previous.settings().items():
        if settings.get(name) != value:
            raise InputError(
                f"{folder} was made with {name} {value}, not "
                f"{settings.get(name)}; give the same lines, models and flags, "
                "or another --output_dir."
            )
