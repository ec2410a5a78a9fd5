"""Asks a large language model for translations.

Its server has the completions interface of OpenAI, as those of vLLM, Ollama,
llama.cpp and hosted models. A request has one line, and an answer is taken only
if it looks like a translation.
"""

import collections
import contextlib
import hashlib
import http.client
import itertools
import json
import threading
import typing
from collections.abc import Iterable, Iterator

from export.common.errors import InputError
from export.common.http_json import parse_address, post_json
from export.common.parallel import map_in_threads
from export.lines.files import clean_line
from export.translators.suspicion import find_suspicion
from trainers.data.cleaning import exceeds_ratio
from trainers.synthesis.shards import Shard, ShardResult
from trainers.synthesis.word_noise import add_word_noise

if typing.TYPE_CHECKING:
    from trainers.synthesis.workers import SynthesisOptions

KEY_VARIABLE = "TEACHER_API_KEY"
DEFAULT_PROMPT = (
    "Translate the text at the end from the language {source_language} into "
    "the language {target_language}. Answer with the translation alone, in one "
    "line.\n\n{text}"
)
# The path of each interface.
APIS = {"chat": "/chat/completions", "completions": "/completions"}
_RETRIED = (408, 409, 425, 429, *range(500, 600))
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
# Lines of each thread that are not written yet: in order, they wait for a line
# whose request is repeated.
_PENDING_PER_THREAD = 16
_MAX_REASON_LENGTH = 300


class TeacherJob:
    """Translates lines by requests to a server.

    Args:
        url: address, such as "http://localhost:8000/v1".
        prompt: text of a request, with "{text}"; "{source_language}" and
            "{target_language}" become codes.
        options: SynthesisOptions.
        key: sent as a bearer token; None for none.
        retries: maximum number of repetitions of a request.
        timeout: seconds for a response.
        first_pause: seconds before the first repetition; the next ones are
            twice as long each.

    Raises InputError for a wrong URL or prompt.
    """

    def __init__(
        self,
        url: str,
        prompt: str,
        options: "SynthesisOptions",
        key: str | None = None,
        retries: int = 5,
        timeout: float = 120.0,
        first_pause: float = _FIRST_PAUSE,
    ):
        self._address = parse_address(
            url, "teacher_url", "http://localhost:8000/v1"
        )
        if "{text}" not in prompt:
            raise InputError(
                "The prompt lacks {text}, where the line is put; write it "
                "into the file of --prompt."
            )
        if key and not (key.isascii() and key.isprintable()):
            raise InputError(
                f"{KEY_VARIABLE} must be a key of printable ASCII; correct it."
            )
        self.options, self._url, self._key = options, url, key
        names = "{source_language}", "{target_language}"
        for name, code in zip(names, options.model_languages):
            prompt = prompt.replace(name, code)
        self._prompt = prompt
        self._retries, self._timeout = retries, timeout
        self._first_pause = first_pause
        self._stopped = threading.Event()

    def describe_models(self) -> list[dict[str, typing.Any]]:
        """Returns what the manifest says of the teacher."""
        digest = hashlib.sha256(self._prompt.encode()).hexdigest()
        return [{"path": self._url, "sha256": {"prompt": digest}}]

    def validate_unchanged(self) -> None:
        """Does nothing: nobody knows whether a server's model changes."""

    def estimate_tokens(self, texts: Iterable[str]) -> tuple[int, int, int]:
        """Returns numbers of requests, and tokens to read and to answer."""
        requests = read = answered = 0
        for text in filter(None, texts):
            tokens = count_tokens(text)
            if tokens <= self.options.max_pieces:
                requests += 1
                read += tokens + count_tokens(self._prompt)
                answered += tokens
        return requests, read, answered

    def run(
        self, shards: Iterable[Shard], num_requests: int
    ) -> Iterator[tuple[Shard, ShardResult]]:
        """Yields (Shard, ShardResult), with some requests at a time.

        Raises InputError if the server refuses a request, or fails too often.
        """
        lines = ((shard, line) for shard in shards for line in shard.lines)

        def translate(item):
            shard, line = item
            return shard, self._translate(line)

        results = map_in_threads(
            translate, lines, num_requests, _PENDING_PER_THREAD
        )
        with contextlib.closing(results):
            try:
                for shard, group in itertools.groupby(
                    results, lambda each: each[0]
                ):
                    counts, pairs = collections.Counter(translated=0), []
                    for _, (outcome, pair) in group:
                        counts.update(outcome)
                        pairs += pair
                    yield shard, ShardResult(counts, pairs)
            finally:
                # No pause delays the end of the threads.
                self._stopped.set()

    def _translate(self, line):
        """Returns counts, and a list of the pair or of nothing."""
        options, counts = self.options, collections.Counter(read=1)
        if not line.text:
            return counts + collections.Counter(blank=1), []
        if count_tokens(line.text) > options.max_pieces:
            return counts + collections.Counter(too_long=1), []
        answer, is_cut, usage = self._ask(line)
        counts.update(usage)
        translation = clean_line(answer.replace("\t", " "))
        reason = self._find_fault(line.text, answer.strip(), is_cut)
        if reason:
            counts[reason] += 1
            return counts, []
        counts["translated"] += 1
        source, target = line.text, translation
        if options.direction == "backward":
            source, target = translation, line.text
        return counts, [(add_word_noise(source, line.index, options), target)]

    def _find_fault(self, text, answer, is_cut):
        """Returns the name of a count, or None for a translation."""
        ratio = self.options.max_ratio
        if is_cut:
            return "cut_off"
        if not clean_line(answer):
            return "empty_translation"
        if len(answer.splitlines()) > 1:
            return "several_lines"
        if ratio and exceeds_ratio(len(text) + 1, len(answer) + 1, ratio):
            return "length_ratio"
        language = self.options.model_languages[1]
        return "suspect" if find_suspicion(text, answer, language) else None

    def _ask(self, line):
        """Returns the answer, whether it was cut off, and a Counter."""
        request, pause = self._make_request(line), self._first_pause
        for _ in range(self._retries):
            try:
                return self._post(request)
            except _TemporaryError as error:
                wait = min(max(pause, error.pause), _LONGEST_PAUSE)
            if self._stopped.wait(wait):
                break
            pause *= 2
        try:
            return self._post(request)
        except _TemporaryError as error:
            raise InputError(
                f"{self._url} failed {self._retries + 1} times, at last with "
                f"{error}; the same command resumes when it works."
            ) from None

    def _make_request(self, line):
        options = self.options
        prompt = self._prompt.replace("{text}", line.text)
        request = {
            "model": options.teacher_model,
            "max_tokens": 4 * count_tokens(line.text) + 64,
            "temperature": 0.0,
        }
        if options.decoding == "sample":
            request |= {
                "temperature": options.temperature,
                "top_p": options.top_p,
                "seed": options.seed + line.index,
            }
        if options.teacher_api == "chat":
            message = {"role": "user", "content": prompt}
            return request | {"messages": [message]}
        return request | {"prompt": prompt, "stop": ["\n"]}

    def _post(self, request):
        headers = {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            status, headers, content = post_json(
                self._address,
                APIS[self.options.teacher_api],
                request,
                self._timeout,
                headers,
            )
        except TimeoutError:
            raise _TemporaryError(f"no answer in {self._timeout:g} s") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            raise _TemporaryError(reason) from None
        if status == http.client.OK:
            return _read_answer(content)
        reason = f"HTTP {status}, {self._shorten(content)}"
        if status in _RETRIED:
            raise _TemporaryError(reason, _read_pause(headers))
        if status in (401, 403):
            advice = f"put a valid key into the variable {KEY_VARIABLE}"
        else:
            advice = "check --teacher_url, --teacher_model and --teacher_api"
        raise InputError(f"{self._url} refuses requests: {reason}; {advice}.")

    def _shorten(self, content):
        """Returns the start of an error's text, without the key."""
        text = content.decode("utf-8", "replace")
        if self._key:
            text = text.replace(self._key, "...")
        return " ".join(text.split())[:_MAX_REASON_LENGTH].rstrip(".;")


class _TemporaryError(Exception):
    """A request failed, but may succeed after a `pause` in seconds."""

    def __init__(self, reason, pause=0.0):
        super().__init__(reason)
        self.pause = pause


def count_tokens(text: str) -> int:
    """Returns about how many tokens of a large model a text has."""
    return len(text.encode("utf-8")) // 4 + 1


def _read_answer(content):
    """Returns the text of a response, whether it is cut, and a Counter."""
    try:
        response = json.loads(content)
        choice = response["choices"][0]
        text = choice.get("message", {}).get("content", choice.get("text"))
        is_cut = choice.get("finish_reason") == "length"
        usage = response.get("usage") or {}
        counts = collections.Counter(
            {
                "prompt_tokens": int(usage.get("prompt_tokens", 0)),
                "answer_tokens": int(usage.get("completion_tokens", 0)),
            }
        )
        if not isinstance(text, str):
            raise TypeError(f"the text is {text!r}")
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError),
        RecursionError,
    ):
        raise _TemporaryError(f"no completion, but {content[:60]!r}") from None
    return text, is_cut, counts


def _read_pause(headers):
    """Returns the seconds of the header Retry-After, 0 if there are none."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0
