"""Load test of an export, with and without a server's batching.

    python benchmarks/serving.py --export=E --text=test.en --seconds=60

Loads the export like TensorFlow Serving. Each caller repeatedly requests one
sentence; requests are merged by the server's batching, at each size and
timeout, or run one by one. Every answer is compared with that for the sentence
alone. `ratio` is answers per second relative to one by one, and `CPU ratio` the
same per CPU second.

The last row is of `export.serve` in a process of its own, asked over HTTP; its
memory and CPU time are of the callers only.
"""

import contextlib
import http.client
import itertools
import json
import pathlib
import re
import subprocess
import sys
import threading

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.harness.load_test import Batcher, BatchingConfig, Load
from benchmarks.harness.turns import parse_numbers
from export.common import command
from export.common.errors import InputError
from export.lines.files import read_lines
from export.serving.export_directory import newest_version
from export.serving.session import ServerSession

FLAGS = flags.FLAGS

flags.DEFINE_string("export", None, "Exported version.", required=True)
flags.DEFINE_string(
    "text", None, "UTF-8 text, a sentence a line.", required=True
)
flags.DEFINE_integer("sentences", 256, "How many of it.", lower_bound=1)
flags.DEFINE_integer("callers", 64, "How many ask at once.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "Of each setting.", lower_bound=1.0)
flags.DEFINE_list("sizes", ["64"], "max_batch_size, separated by commas.")
flags.DEFINE_list("timeouts", ["5"], "Milliseconds, separated by commas.")
flags.DEFINE_list("threads", ["2"], "num_batch_threads, separated by commas.")

_ROW = "{:>8}{:>11}{:>9}{:>9}{:>12}{:>11}{:>8}{:>8}{:>12}{:>8}{:>8}{:>10}"
_HEADS = ["size", "timeout ms", "threads", "answers", "a second", "median ms"]
_HEADS += ["99 % ms", "wrong", "more memory", "ratio", "CPU ms", "CPU ratio"]
# Rounding differs between batches.
_TOLERANCE = 1e-4


def main(_):
    version = newest_version(pathlib.Path(FLAGS.export))
    if version is None:
        raise InputError(f"There is no exported version in {FLAGS.export}.")
    lines = [line for line in read_lines(FLAGS.text) if line.strip()]
    if not lines:
        raise InputError(f"--text={FLAGS.text} has no sentence.")
    step = max(len(lines) // FLAGS.sentences, 1)
    questions = [{"text": [line]} for line in lines[::step][: FLAGS.sentences]]
    settings = itertools.product(
        parse_numbers("sizes", FLAGS.sizes, least=1),
        parse_numbers("timeouts", FLAGS.timeouts, least=0),
        parse_numbers("threads", FLAGS.threads, least=1),
    )
    with ServerSession(version) as session:

        def ask(inputs):
            return session.run("serving_default", inputs)

        alone = [ask(question) for question in questions]

        def is_right(number, answer):
            expected = alone[number]
            difference = abs(answer["score"][0] - expected["score"][0])
            same = answer["translation"][0] == expected["translation"][0]
            return same and difference <= _TOLERANCE

        def load(function):
            return Load(
                function, questions, is_right, FLAGS.callers, FLAGS.seconds
            )

        print(f"{FLAGS.callers} callers, {FLAGS.seconds:g} s each.", flush=True)
        print(_ROW.format(*_HEADS), flush=True)
        plain = load(ask)
        _print_row(plain, plain, "-", "-", "-")
        for size, timeout, threads in settings:
            config = BatchingConfig(size, timeout / 1000, threads)
            with Batcher(ask, config) as batcher:
                found = load(batcher.ask)
            _print_row(found, plain, size, timeout, threads)
    # The session's memory is free by now.
    with _http_server(version) as ask_over_http:
        _print_row(load(ask_over_http), plain, "serve", "-", "-")


@contextlib.contextmanager
def _http_server(version):
    """Starts `export.serve`; yields a function like `ask`."""
    command = [sys.executable, "-m", "export.serve", "--port=0"]
    process = subprocess.Popen(
        [*command, f"--model={version}"], stdout=subprocess.PIPE, text=True
    )
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
    local = threading.local()

    def ask(inputs):
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port)
        body = json.dumps({"inputs": inputs})
        local.connection.request("POST", "/v1/models/translator:predict", body)
        response = local.connection.getresponse()
        outputs = json.loads(response.read())["outputs"]
        outputs["translation"] = [
            each.encode("utf-8") for each in outputs["translation"]
        ]
        return outputs

    try:
        yield ask
    finally:
        process.terminate()
        process.wait()


def _print_row(load, plain, *setting):
    if load.errors:
        raise InputError(f"A request failed: {load.errors[0]}")
    cells = [
        load.answers,
        f"{load.rate:.1f}",
        f"{1000 * load.median:.0f}",
        f"{1000 * load.slowest:.0f}",
        load.wrong,
        f"{load.megabytes:.0f} MB",
        f"{load.rate / plain.rate:.2f}",
        f"{1000 * load.cpu:.1f}",
        f"{plain.cpu / load.cpu:.2f}",
    ]
    print(_ROW.format(*setting, *cells), flush=True)


if __name__ == "__main__":
    command.run(main)
