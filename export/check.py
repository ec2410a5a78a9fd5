"""Runs an export as TensorFlow Serving would: `python -m export.check E`.

E is an exported version, or the folder of versions, of which the newest is
taken. One with operations that a stock server lacks, or that reach for files,
is not run. Any other is loaded by TensorFlow's C++ loader in this process,
which has neither Keras nor Python's TensorFlow, and every signature answers
its warm-up requests. With --model_dir its answers in batches of 1, 7 and 64
are compared with those of the model directory: texts must be the same and
scores within 0.0001. The exit code is 2 where something is not as it should be.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time
import typing

from absl import flags

from export import command
from export.errors import InputError
from export.progress_bar import ProgressBar
from export.server_runtime.saved_model import (
    exported_version,
    foreign_operations,
    read_description,
    task_of,
)
from export.server_runtime.session import ServerError, ServerSession
from export.serving.comparison import ANSWERS, Comparison
from export.serving.warm_up import made_up_texts, read_warm_up
from export.tokenizers.vocabulary_file import split_sides
from export.translators import shortlist
from export.translators.target_pieces import read_ids

_LATER = 5


class Times(typing.NamedTuple):
    """Seconds.

    Attributes:
        warm_up: of all warm-up requests together, in a fresh process.
        first: of the first request after them.
        later: of the same request, the median of five more.
    """

    warm_up: float
    first: float
    later: float


def signature_times(run, requests):
    """Returns the Times of one signature.

    Args:
        run: function of a request.
        requests: list of the warm-up requests; the first is what is asked
            again.
    """
    warm_up = sum(_seconds(run, request) for request in requests)
    first, *later = (_seconds(run, requests[0]) for _ in range(_LATER + 1))
    return Times(warm_up, first, statistics.median(later))


def _seconds(run, request):
    started = time.perf_counter()
    run(request)
    return time.perf_counter() - started


FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir", None, "Model directory whose answers must be the same."
)

_BATCHES = (1, 7, 64)
# Pieces of the made-up sentences; blank ones among them.
_LENGTHS = (8, 3, 0, 12, 1, 5, 9, 2, 7)
_ROW = "{:16}{:>9}{:>9}{:>9}{:>9}{:>12}{:>12}"


def main(arguments):
    """Checks one version and prints a table."""
    version = _version(arguments[1])
    # Before anything of it runs: it may be somebody else's.
    _refuse_foreign(version)
    description = read_description(version)
    requests = read_warm_up(version)
    task, vocabulary = task_of(version), b""
    if FLAGS.model_dir is not None:
        vocabulary = _vocabulary(version, task)
    with _session(version) as session:
        names = sorted(session.signatures(), key=_order(task))
        _check_requests(version, names, requests)
        times = {name: _timed(session, name, requests[name]) for name in names}
        compared = {}
        if FLAGS.model_dir is not None:
            limits = description["limits"]
            answers = _model_answers(version, task, vocabulary, limits)
            compared = _compare(session, names, answers)
    _print(requests, times, compared)
    _print_size(version, description["parameters"])
    print("Operations that a stock server lacks: none.", flush=True)
    _judge(compared)


def _version(argument):
    path = pathlib.Path(argument)
    version = exported_version(path)
    if version is None:
        raise InputError(
            f"There is no exported version in {path}; give the folder that "
            "export.saved_model wrote."
        )
    return version


def _refuse_foreign(version):
    foreign = foreign_operations(version)
    if foreign:
        raise InputError(
            f"{version} was not run: it has operations that a stock TensorFlow "
            f"Serving lacks or that reach for files, {', '.join(foreign)}; "
            "export the model again with export.saved_model."
        )


def _session(version):
    try:
        return ServerSession(version)
    except ServerError as error:
        raise InputError(
            f"TensorFlow Serving could not load {version}: {_brief(error)}"
        ) from error


def _brief(error):
    return str(error).splitlines()[0]


def _order(task):
    return lambda name: [*ANSWERS[task].signatures, name].index(name)


def _check_requests(version, names, requests):
    for name in {*names} ^ {*requests}:
        raise InputError(
            f"The signatures of {version} and its warm-up requests are not of "
            f"one export: only one of them has {name}; export the model again "
            "with export.saved_model."
        )


def _timed(session, name, requests):
    try:
        return signature_times(lambda each: session.run(name, each), requests)
    except ServerError as error:
        raise InputError(
            f"The signature {name} fails on a warm-up request, so that a "
            f"server would not load this version: {_brief(error)}"
        ) from error


def _compare(session, names, answers):
    compared, count = {}, len(names) * sum(_BATCHES)
    with ProgressBar("Comparing", count, "answers") as bar:
        for name in names:
            compared[name] = Comparison()
            start = 0
            for rows in _BATCHES:
                inputs = answers.inputs(name, start, start + rows)
                outputs = session.run(name, inputs)
                answers.compare(name, start, outputs, compared[name])
                start += rows
                bar.update(rows)
    return compared


def _vocabulary(version, task):
    """Reads the model directory's, which must be of a model of the task."""
    folder = pathlib.Path(FLAGS.model_dir)
    path = folder / "vocabulary.model"
    try:
        vocabulary = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}; --model_dir must be a "
            "model directory, as trainers.wmt or trainers.parsing writes it."
        ) from error
    is_parser = (folder / "symbols.json").exists()
    if is_parser != (task == "parsing"):
        name = "translator" if is_parser else "parser"
        raise InputError(
            f"{version} is the export of a {name}, and {folder} holds none; "
            "give the model directory that it was made from."
        )
    return vocabulary


def _model_answers(version, task, vocabulary, limits):
    settings = {name: limits[name] for name in ANSWERS[task].settings}
    # A description of an older export does not say.
    if limits.get("target_pieces") is not None:
        settings["target_pieces"] = read_ids(version)
    if limits.get("shortlist") is not None:
        settings["shortlist"] = str(version / shortlist.FILE)
        settings["shortlist_size"] = limits["shortlist"]
    number = sum(_BATCHES)
    source, _ = split_sides(vocabulary)
    texts = made_up_texts(source, (_LENGTHS * number)[:number])
    question = {
        "task": task,
        "model_dir": FLAGS.model_dir,
        "settings": settings,
        "texts": texts,
    }
    # Python's TensorFlow must not come into this process.
    done = subprocess.run(
        [sys.executable, "-m", "export.serving.model_answers"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it was killed"]
        raise InputError(
            f"{FLAGS.model_dir} gives no answers to compare with: "
            f"{last[0].removeprefix('Error: ')}"
        )
    answers = json.loads(done.stdout)
    return ANSWERS[task](vocabulary, texts, answers, limits)


def _print(requests, times, compared):
    heads = ["signature", "requests", "warm-up", "first", "later"]
    print(_ROW.format(*heads, "texts", "largest"))
    print(_ROW.format("", "", "ms", "ms", "ms", "equal", "difference"))
    for name, each in times.items():
        found = compared.get(name)
        cells = ["-", "-"]
        if found:
            cells = [
                f"{found.equal}/{found.texts}",
                f"{found.difference:.1e}",
            ]
        print(
            _ROW.format(
                *(name, len(requests[name])),
                *(f"{1000 * seconds:.0f}" for seconds in each),
                *cells,
            )
        )


def _print_size(version, parameters):
    size = sum(
        path.stat().st_size for path in version.rglob("*") if path.is_file()
    )
    weights = 4 * parameters
    print(
        f"{size:,} bytes, {size / weights:.3f} of the weights' {weights:,} in "
        "float32."
    )


def _judge(compared):
    for name, found in compared.items():
        if found.first is not None:
            raise InputError(
                f"The signature {name} does not answer as the model directory "
                f"does: {found.first}."
            )


if __name__ == "__main__":
    command.run(main, ["EXPORT"])
