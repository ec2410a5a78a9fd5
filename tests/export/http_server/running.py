"""A running server with a made-up model that answers by rule."""

import contextlib
import inspect
import json
import re
import socket
import threading
import urllib.error
import urllib.request

import numpy as np

from export.http_server import libre_translate
from export.http_server.api_keys import ApiKeys
from export.http_server.app import ServerLimits, create_app
from export.http_server.connections import create_server
from export.loading import LoadedModel
from export.translators.languages import Languages

BEAMS = 3
_ENGLISH_TO_FRENCH = Languages(source="en", target="fr")


class MadeUpModel:
    """Translates "a b" as "B A"; counts the texts of each batch.

    It waits while `gate` is clear.
    """

    def __init__(self, languages=_ENGLISH_TO_FRENCH):
        self.languages = languages
        self.has_alignments = True
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def load(self):
        inputs = {
            **dict.fromkeys(("serving_default", "n_best", "align"), ["text"]),
            "translate_with_terms": ["text", "source_terms", "target_terms"],
            "tokens": ["ids"],
        }
        if not self.has_alignments:
            del inputs["align"]
        return LoadedModel(self.run, inputs, BEAMS, self.languages)

    def run(self, signature, inputs):
        texts = [each.decode("utf-8") for each in inputs["text"]]
        self.batches.append(len(texts))
        self.gate.wait()
        if "fail" in texts:
            raise RuntimeError("The graph failed.")
        best = [translate(text) for text in texts]
        if signature == "translate_with_terms":
            columns = inputs["source_terms"], inputs["target_terms"]
            best = [*map(replace_terms, best, *columns)]
        truncated = np.array([len(text) > 999 for text in texts])
        if signature == "n_best":
            rows = [[each, each and f"{each}!", ""] for each in best]
            scores = [[-1, -2 if each else -1e9, -1e9] for each in best]
            return {
                "translations": as_bytes(rows),
                "scores": np.float32(scores),
                "truncated": truncated,
            }
        outputs = {
            "translation": as_bytes(best),
            "score": np.float32([-len(text) for text in texts]),
            "truncated": truncated,
        }
        if signature == "align":
            size = max(len(text.split()) for text in texts) + 1
            words = np.full((len(texts), size, 2), -1, "int32")
            attention = np.zeros((len(texts), size, size), "float32")
            for row, text in enumerate(texts):
                count = len(text.split())
                words[row, :count] = np.arange(count)[:, None]
                attention[row, range(count), range(count)[::-1]] = 1.0
            outputs |= {
                "source_words": words,
                "target_words": words,
                "alignment": attention,
                # The first word is an unsure one.
                "token_log_probs": np.log(
                    np.float32([0.15, *[0.9] * (size - 1)])
                )[None].repeat(len(texts), axis=0),
            }
        return outputs


def translate(text):
    return " ".join(text.upper().split()[::-1])


def replace_terms(text, sources, targets):
    for source, target in zip(sources, targets, strict=True):
        if source:
            upper = source.decode("utf-8").upper()
            text = text.replace(upper, target.decode("utf-8"))
    return text


def as_bytes(rows):
    return np.frompyfunc(lambda each: each.encode("utf-8"), 1, 1)(
        np.array(rows, object)
    )


def fields_of_translate():
    """Returns the names of the fields that the code of /translate reads."""
    handler = libre_translate.LibreTranslate
    code = inspect.getsource(handler.translate)
    code += inspect.getsource(handler._translate_by)
    pattern = r'(?:fields\.get\(|read_\w+\(\s*fields,\s*)"(\w+)"'
    assert "read_terms(fields)" in code
    return sorted({"api_key", "terms", *re.findall(pattern, code)})


@contextlib.contextmanager
def run_server(model, api_key=None, **limits):
    """Runs a server in a thread; yields its address."""
    limits = ServerLimits(**{"any_origin": True, **limits})
    models = model if isinstance(model, dict) else {"translator": model}
    loaded = {name: each.load() for name, each in models.items()}
    keys = {api_key: None} if isinstance(api_key, str) else api_key
    application = create_app(loaded, limits, keys and ApiKeys(keys))
    server = create_server(application, limits)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def request(url, content=None, headers=None):
    """Returns (status, content of the response); `content` is JSON or bytes."""
    if content is not None and not isinstance(content, bytes):
        content = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    sent = urllib.request.Request(url, content, headers)
    try:
        with urllib.request.urlopen(sent, timeout=60) as response:
            status, body = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    try:
        return status, json.loads(body)
    except ValueError:
        return status, body.decode("utf-8", "replace")
