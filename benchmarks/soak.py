"""Mixed load on `export.serve` with four models for a long time.

    python benchmarks/soak.py --text=test.en --minutes=60 \
        --model=E1 --model=E2 --model=E3 --model=E4 --replacement=E5

The models, exports of different weights from one language into another, get
other languages here: en to fr, fr to en, en to de and fr to es; en to es takes
two of them. Callers ask for texts, HTML and files, some leave before the
answer, and others send invalid requests. In the middle the first model is
replaced on disk. Each answer is compared with that of `export.translate`.

A line a minute has the memory of the server, requests since the start, answers
that differ from the expected (`wrong`), or that did not come (`lost`).
"""

import collections
import contextlib
import itertools
import json
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import psutil
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from export.common import command
from export.documents.document import translate_documents
from export.lines.files import read_lines
from export.loading import load_translator

FLAGS = flags.FLAGS

flags.DEFINE_multi_string("model", None, "Four exports.", required=True)
flags.DEFINE_string(
    "replacement", None, "Export for the first model.", required=True
)
flags.DEFINE_string(
    "text", None, "UTF-8 text, a sentence a line.", required=True
)
flags.DEFINE_integer("sentences", 300, "How many of it.", lower_bound=10)
flags.DEFINE_float("minutes", 60.0, "Of load.", lower_bound=1.0)
flags.DEFINE_integer("callers", 6, "That ask for texts.", lower_bound=1)
flags.DEFINE_float("pause", 0.1, "Mean seconds between requests of a caller.")
flags.DEFINE_string("flags", "", "Further flags of export.serve.")

PAIRS = ("en", "fr"), ("fr", "en"), ("en", "de"), ("fr", "es")
# The last one by way of fr.
ROUTES = {pair: (index,) for index, pair in enumerate(PAIRS)}
ROUTES["en", "es"] = 0, 3
HOSTILE = (
    (b"", "/translate"),
    (b"{", "/translate"),
    (b"[" * 100_000, "/translate"),
    (b'{"q": "a", "source": "en", "target": "xx"}', "/translate"),
    (b'{"q": "\\ud800", "source": "en", "target": "fr"}', "/translate"),
    (b'{"q": ' + b"9" * 2_000_000, "/translate"),
    (b'{"q": "a", "target": "fr", "alternatives": -1}', "/translate"),
    (b"\xff\xfe\x00", "/detect"),
    (b'{"instances": [1]}', "/v1/models/m0:predict"),
    (b"no form", "/translate_file"),
)


def main(_):
    texts = list(itertools.islice(read_lines(FLAGS.text), FLAGS.sentences))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        paths = [*FLAGS.model, FLAGS.replacement]
        copies = [folder / f"m{index}" for index in range(len(paths))]
        for path, copy, pair in zip(paths, copies, [*PAIRS, PAIRS[0]]):
            shutil.copytree(path, copy)
            _set_languages(copy, pair)
        expected = Expected(texts, copies)
        with _serve(copies[:4]) as (process, url):
            run(Load(url, texts, expected), psutil.Process(process.pid), copies)


def run(load, process, copies):
    """Asks until the time is over; prints a line a minute, and a summary."""
    callers = [load.ask_for_texts] * FLAGS.callers
    callers += [load.ask_for_a_file, load.leave, load.be_hostile]
    threads = [
        threading.Thread(target=load.repeat, args=(caller, seed))
        for seed, caller in enumerate(callers)
    ]
    for thread in threads:
        thread.start()
    started, memory, is_replaced = time.monotonic(), [], False
    print("minute  memory MB  requests  wrong  lost  refused", flush=True)
    while (minutes := (time.monotonic() - started) / 60) < FLAGS.minutes:
        time.sleep(10)
        memory.append(process.memory_info().rss / 2**20)
        if minutes > FLAGS.minutes / 2 and not is_replaced:
            copies[0].rename(copies[0].with_name("old"))
            copies[4].rename(copies[0])
            is_replaced = True
            print("  the first model is replaced", flush=True)
        if len(memory) % 6 == 0:
            counts = load.counts
            print(
                f"{minutes:6.1f}{memory[-1]:11.1f}{counts['answers']:10,}"
                f"{counts['wrong']:7}{counts['lost']:6}{counts['refused']:9,}",
                flush=True,
            )
    load.is_over.set()
    for thread in threads:
        thread.join()
    # A minute's median, of samples every 10 seconds.
    settled = memory[min(60, len(memory) // 6) :]
    first, last = (
        statistics.median(part) for part in (settled[:6], memory[-6:])
    )
    print(
        f"memory after the start {first:.1f} MB, at the end {last:.1f} MB: "
        f"{100 * (last / first - 1):+.2f} %"
    )
    print(dict(load.counts))
    for example in load.examples[:10]:
        print(*example, sep="\n  ")


class Expected:
    """What each model, the last one the replacement of the first, answers."""

    def __init__(self, texts, paths):
        translators = [load_translator(path) for path in paths]
        marked = [*map(mark, texts)]
        self._by_model, self._by_html = (
            [
                dict(zip(texts, translate_documents(each, sources, kind)))
                for each in translators
            ]
            for kind, sources in (("text", texts), ("html", marked))
        )
        self._pivoted = [
            dict(zip(first, _translate_again(translators[3], first)))
            for first in (self._by_model[0], self._by_model[4])
        ]

    def answers(self, pair, text, document_format="text"):
        """Returns the right answers: two from the replaced model."""
        if pair == ("en", "es"):
            return {each[text] for each in self._pivoted}
        index = PAIRS.index(pair)
        indices = (0, 4) if index == 0 else (index,)
        tables = self._by_html if document_format == "html" else self._by_model
        return {tables[each][text] for each in indices}


class Load:
    """The callers, and what they count."""

    def __init__(self, url, texts, expected):
        self._url, self._texts, self._expected = url, texts, expected
        self.counts, self.examples = collections.Counter(), []
        self.is_over = threading.Event()

    def repeat(self, ask, seed):
        generator = random.Random(seed)
        while not self.is_over.is_set():
            try:
                ask(generator)
            except (OSError, ValueError, KeyError) as error:
                self.counts["lost"] += 1
                self.examples.append((ask.__name__, repr(error)))
            time.sleep(generator.expovariate(1 / FLAGS.pause))

    def ask_for_texts(self, generator):
        pair = generator.choice([*ROUTES])
        texts = generator.sample(self._texts, generator.randint(1, 6))
        kinds = ["text"] if len(ROUTES[pair]) > 1 else ["text", "html"]
        kind = generator.choice(kinds)
        content = {
            "q": [mark(text) if kind == "html" else text for text in texts],
            **{"source": pair[0], "target": pair[1], "format": kind},
        }
        response = self._post("/translate", json.dumps(content).encode())
        found = json.loads(response)["translatedText"]
        self._compare(pair, texts, found, kind)

    def ask_for_a_file(self, generator):
        pair = generator.choice(PAIRS)
        most = min(60, len(self._texts))
        texts = generator.sample(self._texts, generator.randint(5, most))
        content = json.dumps(dict(enumerate(texts)))
        response = self._post(*form(pair, content))
        address = json.loads(response)["translatedFileUrl"]
        with urllib.request.urlopen(address, timeout=600) as file:
            found = json.load(file)
        self._compare(pair, texts, [*found.values()])

    def leave(self, generator):
        """Sends a request, or a part of it, and closes the connection."""
        pair = generator.choice(PAIRS)
        content = json.dumps(dict(enumerate(self._texts[:200])))
        path, body, headers = form(pair, content)
        host, port = self._url.removeprefix("http://").split(":")
        head = "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{head}"
        head += (
            f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        message = head.encode() + body
        size = generator.choice(
            [len(message), generator.randrange(len(message))]
        )
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(message[:size])
            time.sleep(generator.random())
        self.counts["left"] += 1
        time.sleep(2)

    def be_hostile(self, generator):
        content, path = generator.choice(HOSTILE)
        try:
            self._post(path, content)
        except urllib.error.HTTPError as error:
            with error:
                error.read()
            if 400 <= error.code < 500:
                self.counts["refused"] += 1
                return
        except OSError:
            # It may close the connection of a request that is too long.
            self.counts["refused"] += 1
            return
        self.counts["wrong"] += 1
        self.examples.append((path, content[:80]))

    def _post(self, path, content, headers=None):
        request = urllib.request.Request(
            self._url + path, content, headers or {}
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            return response.read()

    def _compare(self, pair, texts, found, kind="text"):
        self.counts["answers"] += 1
        for text, translation in zip(texts, found, strict=True):
            if translation not in self._expected.answers(pair, text, kind):
                self.counts["wrong"] += 1
                self.examples.append((pair, text, translation))


def mark(text):
    """Returns a text as HTML with a tag around its second word."""
    words = re.sub("[<>&]", "", text).split()
    words[1:2] = [f"<b>{word}</b>" for word in words[1:2]]
    return " ".join(words)


def form(pair, content):
    """Returns path, body and headers of a JSON file's request."""
    fields = {"source": pair[0], "target": pair[1]}
    parts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'
        for name, value in fields.items()
    ]
    head = 'Content-Disposition: form-data; name="file"; filename="a.json"'
    parts.append(f"{head}\r\n\r\n{content}")
    body = "".join(f"--soak\r\n{part}\r\n" for part in parts) + "--soak--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=soak"}
    return "/translate_file", body.encode(), kind


def _translate_again(translator, translations):
    return translate_documents(translator, [*translations.values()], "text")


def _set_languages(path, pair):
    """Changes the languages of an export to others."""
    changes = dict(zip(("source_language", "target_language"), pair))

    def change(description):
        return json.dumps(json.loads(description) | changes)

    for file in path.rglob("*"):
        if file.name == "translator.json":
            file.write_text(change(file.read_text("utf-8")), "utf-8")
        elif file.name == "translate.onnx":
            import onnx

            model = onnx.load(str(file))
            (entry,) = [
                e for e in model.metadata_props if e.key == "translator"
            ]
            entry.value = change(entry.value)
            onnx.save(model, str(file))


@contextlib.contextmanager
def _serve(paths):
    arguments = [f"--model={path}" for path in paths] + FLAGS.flags.split()
    process = subprocess.Popen(
        [sys.executable, "-m", "export.serve", "--port=0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        yield process, re.search(r"http://\S+?(?=/\s)", line)[0]
    finally:
        process.terminate()
        process.wait(60)


if __name__ == "__main__":
    command.run(main)
