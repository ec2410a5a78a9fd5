"""Times an export under many callers, with a server's batching and without.

    python benchmarks/serving.py --export=E --text=test.en --seconds=60

The export is loaded as TensorFlow Serving loads it. Every caller asks for one
sentence at a time, again and again; requests are merged as the server's
batching does it, at each size and time-out, or run one by one. Every answer
is compared with the one that its sentence gets alone. `ratio` is of answers a
second to those one by one; `CPU ratio` of answers for the same processor
time, which other programs on the machine disturb less.
"""

import itertools
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.load_test.batcher import Batcher, BatchingRules
from benchmarks.load_test.callers import measure_load
from export import command
from export.errors import InputError
from export.server_runtime.export_directory import exported_version
from export.server_runtime.session import ServerSession

FLAGS = flags.FLAGS

flags.DEFINE_string("export", None, "Exported version.", required=True)
flags.DEFINE_string(
    "text", None, "UTF-8 text, a sentence a line.", required=True
)
flags.DEFINE_integer("sentences", 256, "How many of it.", lower_bound=1)
flags.DEFINE_integer("callers", 64, "How many ask at once.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "Of each setting.", lower_bound=1.0)
flags.DEFINE_list("sizes", ["64"], "max_batch_size, with commas between.")
flags.DEFINE_list("timeouts", ["5"], "Milliseconds, with commas between.")
flags.DEFINE_list("threads", ["2"], "num_batch_threads, with commas between.")

_ROW = "{:>8}{:>11}{:>9}{:>9}{:>12}{:>11}{:>8}{:>8}{:>12}{:>8}{:>8}{:>10}"
_HEADS = ["size", "timeout ms", "threads", "answers", "a second", "median ms"]
_HEADS += ["99 % ms", "wrong", "more memory", "ratio", "CPU ms", "CPU ratio"]
# Rounding differs between batches.
_TOLERANCE = 1e-4


def main(_):
    """Runs the command."""
    version = exported_version(pathlib.Path(FLAGS.export))
    if version is None:
        raise InputError(f"There is no exported version in {FLAGS.export}.")
    questions = [{"text": [line]} for line in _lines()]
    with ServerSession(version) as session:
        _measure(session, questions)


def _measure(session, questions):
    def ask(inputs):
        return session.run("serving_default", inputs)

    alone = [ask(question) for question in questions]

    def is_right(number, answer):
        expected = alone[number]
        apart = abs(answer["score"][0] - expected["score"][0])
        same = answer["translation"][0] == expected["translation"][0]
        return same and apart <= _TOLERANCE

    def load(function):
        found = measure_load(
            function, questions, is_right, FLAGS.callers, FLAGS.seconds
        )
        if found.errors:
            raise InputError(f"A request failed: {found.errors[0]}")
        return found

    print(f"{FLAGS.callers} callers, {FLAGS.seconds:g} s each.", flush=True)
    print(_ROW.format(*_HEADS), flush=True)
    plain = load(ask)
    _print(plain, plain, "-", "-", "-")
    for setting in itertools.product(
        _numbers("sizes"), _numbers("timeouts"), _numbers("threads")
    ):
        size, timeout, threads = setting
        rules = BatchingRules(size, timeout / 1000, threads)
        with Batcher(ask, rules) as batcher:
            _print(load(batcher.ask), plain, *setting)


def _print(found, plain, *setting):
    print(
        _ROW.format(
            *setting,
            found.answers,
            f"{found.rate:.1f}",
            f"{1000 * found.median:.0f}",
            f"{1000 * found.slowest:.0f}",
            found.wrong,
            f"{found.megabytes:.0f} MB",
            f"{found.rate / plain.rate:.2f}",
            f"{1000 * found.cpu:.1f}",
            f"{plain.cpu / found.cpu:.2f}",
        ),
        flush=True,
    )


def _lines():
    try:
        text = pathlib.Path(FLAGS.text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"--text={FLAGS.text} cannot be read: {error}"
        ) from error
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"--text={FLAGS.text} has no sentence.")
    step = max(len(lines) // FLAGS.sentences, 1)
    return lines[::step][: FLAGS.sentences]


def _numbers(flag):
    try:
        numbers = [int(each) for each in FLAGS[flag].value]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise InputError(f"--{flag} must be whole numbers with commas between.")
    return numbers


if __name__ == "__main__":
    command.run(main)
