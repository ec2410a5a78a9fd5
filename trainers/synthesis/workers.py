"""Workers that translate shards: their options, models and processes.

Workers are local processes or Ray tasks. Tasks receive lines and return pairs;
models are sent once to each machine.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import tempfile
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

from export.common.errors import InputError
from export.common.parallel import PENDING_PER_WORKER, map_futures
from export.common.storage import explain_read_errors
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators import search_flags
from export.translators.languages import Languages
from trainers.workers import ray_cluster

if typing.TYPE_CHECKING:
    from export.translators.translator import Translator
    from trainers.synthesis.shards import Line, Shard, ShardResult

# The files that determine the output of a translator.
FILES = ("config.json", "vocabulary.model", "model.weights.h5")
# Jobs of `localize_job` in this process.
_LOCAL_JOBS: dict["TranslationJob", "TranslationJob"] = {}


# The settings of a search; those that are None keep the model's own.
_SearchOptions: typing.Any = dataclasses.make_dataclass(
    "_SearchOptions",
    [(name, object, None) for name in search_flags.SEARCH],
    frozen=True,
    kw_only=True,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SynthesisOptions(_SearchOptions):
    """The flags of trainers.synthesize that determine the pairs."""

    direction: str
    source_language: str
    target_language: str
    decoding: str = "beam"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    best_of: int = 1
    metric: str = "bleu"
    tokenize: str = "13a"
    seed: int = 1
    tag: str = ""
    word_drop: float = 0.0
    word_swap: int = 0
    max_pieces: int = 256
    max_ratio: float | None = None
    min_score: float | None = None
    keep_duplicates: bool = False
    shard_lines: int = 1000
    batch_tokens: int = 2048
    threads: int = 1
    teacher_model: str | None = None
    teacher_api: str = "chat"

    @property
    def model_languages(self) -> tuple[str, str]:
        """Codes of the languages from and into which the models translate."""
        languages = self.source_language, self.target_language
        return languages if self.direction == "forward" else languages[::-1]


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """Path of a model directory, and the SHA-256 of each of `FILES`."""

    path: str
    sha256: tuple[str, ...]


def hash_model_files(path: str | os.PathLike) -> ModelFiles:
    """Returns the ModelFiles of a translator's model directory."""
    folder = pathlib.Path(path)
    if (folder / "symbols.json").exists():
        raise InputError(
            f"{folder} holds a parser; give a translator's model directory."
        )
    digests = []
    for file_path in [folder / name for name in FILES]:
        with explain_read_errors(file_path), file_path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return ModelFiles(str(path), tuple(digests))


def validate_model_direction(
    path: str | os.PathLike, source: str, target: str
) -> None:
    """Raises InputError unless a model may translate source into target.

    One of several languages must have both; of others run.json may not record
    the opposite direction.
    """
    vocabulary_path = pathlib.Path(path, "vocabulary.model")
    try:
        tokenizer = load_python_tokenizers(vocabulary_path.read_bytes())
    except ValueError as error:
        raise InputError(f"{vocabulary_path}: {error}") from error
    languages = Languages.from_tokenizer(tokenizer)
    if languages.codes:
        languages.select(source, target)
        return
    try:
        run = json.loads(pathlib.Path(path, "run.json").read_text("utf-8"))
        recorded = run["source_language"], run["target_language"]
    # Imported models have no run.json.
    except (OSError, ValueError, TypeError, KeyError):
        return
    if recorded == (target, source):
        raise InputError(
            f"--model={path} translates from {target} into {source}, but "
            f"{source} must be translated into {target}; give a model of "
            "that direction, or change --direction."
        )


@dataclasses.dataclass(frozen=True)
class TranslationJob:
    """A picklable function from lines to pairs, called by workers.

    On equal machines its result depends only on models, options and lines.
    """

    models: tuple[ModelFiles, ...]
    options: SynthesisOptions

    def describe_models(self) -> list[dict[str, typing.Any]]:
        """Returns paths and SHA-256 for the manifest."""
        return [
            {"path": model.path, "sha256": dict(zip(FILES, model.sha256))}
            for model in self.models
        ]

    def validate_unchanged(self) -> None:
        """Raises InputError if a file of a model has changed."""
        for model in self.models:
            if hash_model_files(model.path) != model:
                raise InputError(
                    f"The model {model.path} has changed since the start; "
                    "restore it, or use another --output_dir."
                )

    def __call__(self, lines: "Sequence[Line]") -> "ShardResult":
        """Returns the ShardResult of `lines`."""
        # Not at the top: the main process does without TensorFlow.
        from trainers.synthesis.generate import generate_pairs

        return generate_pairs(load_translator(self), lines, self.options)


# One, or those of both directions in trainers.score_pairs.
@functools.lru_cache(maxsize=2)
def load_translator(job: TranslationJob) -> "Translator":
    """Returns the Translator of a TranslationJob, cached per process."""
    import tensorflow as tf

    from export.loading import load_translator as load
    from export.translators.model_backend import MAX_SOURCE_TOKENS

    options = job.options
    search = {name: getattr(options, name) for name in search_flags.SEARCH}
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    for gpu in tf.config.list_physical_devices("GPU"):
        # Otherwise the first worker reserves all GPU memory.
        tf.config.experimental.set_memory_growth(gpu, True)
    job.validate_unchanged()
    translator = load(
        *(model.path for model in job.models),
        batch_tokens=options.batch_tokens,
        max_source_tokens=max(MAX_SOURCE_TOKENS, options.max_pieces),
        num_threads=1,
        **search,
    )
    if translator.languages.codes:
        translator = translator.for_languages(*options.model_languages)
    return translator


def read_model_files(models: Iterable[ModelFiles]) -> list[list[bytes]]:
    """Returns, for each ModelFiles, a list of the bytes of `FILES`."""
    return [
        [pathlib.Path(model.path, name).read_bytes() for name in FILES]
        for model in models
    ]


def localize_job(
    job: TranslationJob, fetch_files: Callable[[], list[list[bytes]]]
) -> TranslationJob:
    """Returns another machine's job with models that this process loaded.

    `fetch_files` returns the other machine's `read_model_files(job.models)`.
    """
    if job not in _LOCAL_JOBS:
        # Removed after loading: a killed worker could not clean up later.
        with tempfile.TemporaryDirectory(prefix="synthesis-") as folder:
            models: list[ModelFiles] = []
            for model, contents in zip(job.models, fetch_files()):
                # Error messages contain the name of the model directory.
                name = pathlib.Path(model.path).resolve().name
                path = pathlib.Path(folder, f"{len(models)}", name)
                path.mkdir(parents=True)
                for file_name, content in zip(FILES, contents):
                    (path / file_name).write_bytes(content)
                models.append(dataclasses.replace(model, path=str(path)))
            local_job = dataclasses.replace(job, models=tuple(models))
            load_translator(local_job)
        _LOCAL_JOBS[job] = local_job
    return _LOCAL_JOBS[job]


def run_local(
    job: TranslationJob, shards: "Iterable[Shard]", num_workers: int
) -> "Iterator[tuple[Shard, ShardResult]]":
    """Yields (Shard, ShardResult) as worker processes finish.

    Raises InputError if `job` does, or if a process was killed.
    """
    with _process_pool(num_workers) as pool:
        try:
            yield from map_futures(
                functools.partial(pool.submit, _translate, job),
                shards,
                lambda: PENDING_PER_WORKER * num_workers,
                in_order=False,
            )
        except BrokenProcessPool as error:
            raise InputError(
                "A worker process was killed, most likely for lack of memory. "
                "Run the same command again, which resumes, with fewer "
                "--workers or a lower --batch_tokens."
            ) from error


def _translate(job, shard):
    return shard, job(shard.lines)


@contextlib.contextmanager
def _process_pool(num_workers):
    """Process pool whose workers end with the block or with this process."""
    # A fork would copy TensorFlow's locks without its threads.
    spawn = multiprocessing.get_context("spawn")
    # Workers exit when the main end of the pipe is closed.
    worker_end, main_end = spawn.Pipe(duplex=False)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers, spawn, _initialize_worker, (worker_end,)
    )
    try:
        yield pool
    except BaseException:
        # A running shard may take minutes, and its result is not needed.
        main_end.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        main_end.close()
        worker_end.close()


def _initialize_worker(worker_end):
    # A terminal sends Ctrl-C to all; the main process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(
        target=_exit_when_closed, args=(worker_end,), daemon=True
    ).start()


def _exit_when_closed(worker_end):
    multiprocessing.connection.wait([worker_end])
    os._exit(1)


def run_on_ray(
    job: TranslationJob,
    shards: "Iterable[Shard]",
    address: str,
    gpus: float = 0.0,
) -> "Iterator[tuple[Shard, ShardResult]]":
    """Yields (Shard, ShardResult) as tasks of a Ray cluster finish.

    `address` is as in `ray_cluster.connect`; each shard reserves `gpus` GPUs.
    Raises InputError as it does, and if `job` does.
    """
    threads = job.options.threads
    with ray_cluster.connect(address, cpus=threads, gpus=gpus) as cluster:
        # As a reference, which each process fetches once, not each task.
        files = cluster.put(read_model_files(job.models))
        translate = functools.partial(_translate_on_ray, job, files)
        yield from cluster.map(translate, shards, in_order=False)


def _translate_on_ray(job, files, shard):
    import ray

    return _translate(localize_job(job, lambda: ray.get(files)), shard)
