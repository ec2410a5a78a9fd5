"""Compares servers that have LibreTranslate's interface.

    python benchmarks/translate_servers.py --text=test.en \
        --url=http://localhost:5000 --url=http://localhost:5055

Servers take turns; callers ask each of them for a sentence at a time, and the
next one as soon as they have the answer. A line has the median of the rounds
of answers a second, `ratio` is that to the first server's.
"""

import json
import pathlib
import statistics
import sys
import urllib.request

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.harness.load_test import Load
from benchmarks.harness.turns import parse_numbers
from export.common import command
from export.common.errors import InputError
from export.lines.files import read_lines

FLAGS = flags.FLAGS

flags.DEFINE_multi_string("url", None, "Of each server.", required=True)
flags.DEFINE_string(
    "text", None, "UTF-8 text, a sentence a line.", required=True
)
flags.DEFINE_integer("sentences", 500, "How many of it.", lower_bound=1)
flags.DEFINE_string("source", "en", "Code of its language.")
flags.DEFINE_string("target", "fr", "Code of that of translations.")
flags.DEFINE_list("callers", ["1", "8", "32"], "How many ask at once.")
flags.DEFINE_integer("rounds", 5, "Of each server.", lower_bound=1)
flags.DEFINE_float(
    "seconds",
    5.0,
    "Of a round, the first quarter not counted.",
    lower_bound=0.1,
)


def main(_):
    lines = [line for line in read_lines(FLAGS.text) if line.strip()]
    texts = lines[: FLAGS.sentences]
    print("callers  answers a second  median ms  ratio  server")
    for callers in parse_numbers("callers", FLAGS.callers):
        rounds = [
            [measure(url, texts, callers) for url in FLAGS.url]
            for _ in range(FLAGS.rounds)
        ]
        for url, loads in zip(FLAGS.url, zip(*rounds)):
            rate = statistics.median(load.rate for load in loads)
            seconds = statistics.median(load.median for load in loads)
            ratio = statistics.median(
                load.rate / first.rate
                for load, (first, *_) in zip(loads, rounds)
            )
            print(
                f"{callers:7}{rate:18.1f}{1000 * seconds:11.1f}{ratio:7.2f}"
                f"  {url}",
                flush=True,
            )


def measure(url, texts, callers):
    """Returns the Load of a server; InputError if a request fails."""

    def ask(text):
        fields = {"q": text, "source": FLAGS.source, "target": FLAGS.target}
        request = urllib.request.Request(
            f"{url}/translate",
            json.dumps(fields).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["translatedText"]

    load = Load(
        ask, texts, lambda _, answer: bool(answer), callers, FLAGS.seconds
    )
    if load.errors or load.wrong:
        raise InputError(
            f"{url} failed: {(load.errors or ['an empty translation'])[0]}"
        )
    return load


if __name__ == "__main__":
    command.run(main)
