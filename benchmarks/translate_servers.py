"""Compares servers that have LibreTranslate's interface.

    python benchmarks/translate_servers.py --text=test.en \
        --url=http://localhost:5000 --url=http://localhost:5055

Servers take turns; callers ask each of them for a sentence at a time, and the
next one as soon as they have the answer. A line has the median of the rounds
of answers a second, `ratio` is that to the first server's.
"""

import itertools
import json
import pathlib
import statistics
import sys
import threading
import time
import urllib.request

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from export.common import command
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
flags.DEFINE_float("seconds", 5.0, "Of a round.", lower_bound=0.1)


def main(_):
    texts = list(itertools.islice(read_lines(FLAGS.text), FLAGS.sentences))
    print("callers  answers a second  median ms  ratio  server")
    for callers in map(int, FLAGS.callers):
        rounds = [
            [measure(url, texts, callers) for url in FLAGS.url]
            for _ in range(FLAGS.rounds)
        ]
        for url, column in zip(FLAGS.url, zip(*rounds)):
            rates, times = zip(*column)
            ratio = statistics.median(
                rate / first[0][0] for rate, first in zip(rates, rounds)
            )
            print(
                f"{callers:7}{statistics.median(rates):18.1f}"
                f"{1000 * statistics.median(times):11.1f}{ratio:7.2f}  {url}",
                flush=True,
            )


def measure(url, texts, callers):
    """Returns the answers a second, and the median seconds of one."""
    seconds, end = [], time.monotonic() + FLAGS.seconds

    def repeat(first):
        for text in itertools.islice(itertools.cycle(texts), first, None):
            start = time.monotonic()
            if start > end:
                return
            fields = {"q": text, "source": FLAGS.source}
            content = json.dumps(fields | {"target": FLAGS.target}).encode()
            request = urllib.request.Request(
                f"{url}/translate",
                content,
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                assert json.load(response)["translatedText"]
            seconds.append(time.monotonic() - start)

    # Callers begin at different sentences.
    threads = [
        threading.Thread(target=repeat, args=(7 * number,))
        for number in range(callers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(seconds) / FLAGS.seconds, statistics.median(seconds)


if __name__ == "__main__":
    command.run(main)
