"""Scores training pairs by two models: `python -m trainers.score_pairs ...`.

Dual conditional cross-entropy (Junczys-Dowmunt 2018): a pair is good if a model
and one of the other direction both find it likely, and agree. With H the mean
negative log-probability of a token, its score is

  -(|H(target | source) - H(source | target)| + mean of both),

0 at best. Line N of --output is the score of training pair N. An interrupted
command resumes, and `trainers.prepare --pair_scores=FILE --keep_share=0.8` uses
the best four fifths.
"""

import functools
import itertools
import os
import pathlib
from collections.abc import Sequence

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import folder_lock
from export.common.progress_bar import ProgressBar
from export.common.storage import explain_file_errors, write_json
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.translators import search_flags
from export.translators.translator import Translator
from trainers.data import dataset_flags
from trainers.data.pair_scores import description_path, read_description
from trainers.synthesis import workers
from trainers.workers import ray_cluster

FLAGS = flags.FLAGS
flags.adopt_module_key_flags(dataset_flags)
search_flags.define_batch_tokens()
ray_cluster.define_flag()
flags.DEFINE_string(
    "model_dir", None, "Model directory from source to target.", required=True
)
flags.DEFINE_string(
    "reverse_model_dir",
    None,
    "Model directory from target to source.",
    required=True,
)
flags.DEFINE_string("output", None, "File to write.", required=True)

_CHUNK_PAIRS = 4096


def main(arguments: list[str]) -> None:
    """Scores all training pairs of the corpus."""
    del arguments
    forward, backward = map(
        ModelDirectory, (FLAGS.model_dir, FLAGS.reverse_model_dir)
    )
    corpus = dataset_flags.corpus("text", forward.read_run())
    languages = corpus.source_language, corpus.target_language
    for directory, expected in (
        (forward, languages),
        (backward, languages[::-1]),
    ):
        found = directory.read_languages()
        if (*found,) != (*expected,):
            raise InputError(
                f"{directory.path} translates {' to '.join(map(str, found))}; "
                f"expected a model of {' to '.join(expected)}."
            )
    num_pairs = sum(1 for _ in corpus.pairs("train"))
    jobs = [
        workers.TranslationJob(
            (workers.hash_model_files(each.path),),
            workers.SynthesisOptions(
                direction=direction,
                source_language=languages[0],
                target_language=languages[1],
                batch_tokens=FLAGS.batch_tokens,
            ),
        )
        for each, direction in ((forward, "forward"), (backward, "backward"))
    ]
    description = {
        "dataset": corpus.name,
        "languages": [*languages],
        "fingerprint": corpus.fingerprint(),
        "pairs": num_pairs,
        "models": [[*job.models[0].sha256] for job in jobs],
    }
    path = pathlib.Path(FLAGS.output)
    with folder_lock(path.absolute().parent, "pair_scores"):
        first = _prepare_output(path, description)
        pairs = itertools.islice(corpus.pairs("train"), first, None)
        chunks = iter(lambda: [*itertools.islice(pairs, _CHUNK_PAIRS)], [])
        score_chunks = _score_here if FLAGS.ray is None else _score_on_ray
        with (
            explain_file_errors(path),
            path.open("ab") as file,
            ProgressBar("Scoring", num_pairs, "pairs") as bar,
        ):
            bar.skip(first)
            for scores in score_chunks(jobs, chunks):
                file.write("".join(f"{s:.5f}\n" for s in scores).encode())
                file.flush()
                bar.update(len(scores))
    print(f"Wrote {path}, the scores of {num_pairs:,} pairs.")
    flags_of_data = (
        f"--dataset={corpus.name}",
        f"--source_language={languages[0]}",
        f"--target_language={languages[1]}",
    )
    command.print_next(
        command.command_line(
            "trainers.prepare",
            *flags_of_data,
            f"--pair_scores={path}",
            "--keep_share=0.8",
            "--output_dir=data/best",
        )
    )


def score_pairs(
    forward: Translator,
    backward: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
) -> list[float]:
    """Returns the scores of pairs by translators of both directions."""
    entropies = []
    for translator, pair in (
        (forward, (sources, targets)),
        (backward, (targets, sources)),
    ):
        pairs = translator.pairs(*pair)
        entropies.append(
            [
                -score / each.target.length
                for score, each in zip(translator.score_pairs(pairs), pairs)
            ]
        )
    return [-(abs(a - b) + (a + b) / 2) for a, b in zip(*entropies)]


def _score_here(jobs, chunks):
    """Yields the scores of each chunk of pairs, by all processors."""
    translators = [
        load_translator(job.models[0].path, batch_tokens=FLAGS.batch_tokens)
        for job in jobs
    ]
    for chunk in chunks:
        yield score_pairs(*translators, *zip(*chunk))


def _score_on_ray(jobs, chunks):
    """Yields the scores of each chunk of pairs, a task of a cluster each."""
    with ray_cluster.connect(FLAGS.ray) as cluster:
        files = [cluster.put(workers.read_model_files(j.models)) for j in jobs]
        score = functools.partial(_score_task, jobs, files)
        yield from cluster.map(score, chunks)


def _score_task(jobs, files, chunk):
    import ray

    translators = [
        workers.load_translator(
            workers.localize_job(job, functools.partial(ray.get, each))
        )
        for job, each in zip(jobs, files)
    ]
    return score_pairs(*translators, *zip(*chunk))


def _prepare_output(path, description):
    """Returns the number of pairs that a file has already.

    Raises InputError if they are of other pairs or models.
    """
    if not path.exists():
        write_json(description_path(path), description)
        return 0
    if read_description(path) != description:
        raise InputError(
            f"{path} has scores of another corpus or of other models; give "
            "another --output, or remove it."
        )
    with explain_file_errors(path):
        content = path.read_bytes()
        # The last line may be incomplete.
        os.truncate(path, content.rfind(b"\n") + 1)
    return content.count(b"\n")


if __name__ == "__main__":
    command.run(main)
