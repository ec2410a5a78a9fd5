"""Texts and ids of sentences, and batches of similar lengths."""

import concurrent.futures
import contextlib
import typing

import numpy as np

from export.common.errors import InputError

# One batch computes matrix products while another runs single-threaded code.
NUM_THREADS = 2

# Source tokens in a batch, padding included.
BATCH_TOKENS = 2048


def translate_in_batches(
    lengths,
    batch_tokens,
    answer_batch,
    on_progress=None,
    num_threads=NUM_THREADS,
    batch_size=None,
):
    """Answers sentences of these lengths, in the batches of `batch_by_size`.

    `answer_batch` is a thread-safe function of a list of sentence indices that
    returns their answers; `on_progress` gets the number of newly answered
    sentences. Returns a list of answers, None for sentences in no batch.
    """
    answers = [None] * len(lengths)
    batches = [*batch_by_size(lengths, batch_tokens, batch_size)]
    with contextlib.closing(
        parallel_map(answer_batch, batches, num_threads)
    ) as results:
        for batch, batch_answers in zip(batches, results):
            for number, answer in zip(batch, batch_answers):
                answers[number] = answer
            if on_progress is not None:
                on_progress(len(batch))
    return answers


def parallel_map(function, items, num_threads=NUM_THREADS):
    """Maps in threads, and yields the results in the order of the items.

    After an error or `close` no further item is started. With 1 there is no
    thread, and Ctrl-C acts at once.
    """
    if num_threads == 1:
        yield from map(function, items)
        return
    threads = concurrent.futures.ThreadPoolExecutor(num_threads)
    try:
        yield from threads.map(function, items)
    finally:
        threads.shutdown(cancel_futures=True)


def batch_by_size(lengths, batch_tokens, batch_size=None):
    """Yields lists of sentence indices, the longest sentences first.

    A batch has at most `batch_tokens` tokens, padding included, or 1 sentence;
    or `batch_size` sentences. Blank sentences, of length 1, are in no batch.
    """
    numbers = [i for i, length in enumerate(lengths) if length > 1]
    numbers.sort(key=lambda i: lengths[i], reverse=True)
    start = 0
    while start < len(numbers):
        size = batch_size or max(batch_tokens // lengths[numbers[start]], 1)
        yield numbers[start : start + size]
        start += size


# Far above real text. A run of unknown characters is one token of any length,
# and the tokenizer's time grows with its square.
_CHARACTERS_PER_TOKEN = 64


def truncation_limit(config, max_tokens):
    """Returns `max_tokens`, or the number of learned positions if lower."""
    if config.positions == "learned":
        return min(max_tokens, config.max_positions)
    return max_tokens


def character_limit(max_tokens):
    """Returns the maximum number of characters of `max_tokens` tokens."""
    return _CHARACTERS_PER_TOKEN * max_tokens


class UnknownCharacter(ValueError):
    """A prefix, `prefixes[index]`, has a `character` that no token covers."""

    def __init__(self, index, character):
        super().__init__(
            f"prefixes[{index}] has {character!r} (U+{ord(character):04X}), "
            "which the vocabulary lacks; omit it."
        )
        self.index = index
        self.character = character


class IdPair(typing.NamedTuple):
    """Source and target ids, int32 [S] and [T], with their end ids."""

    source: np.ndarray
    target: np.ndarray
    source_truncated: bool
    target_truncated: bool = False

    @property
    def length(self):
        """Number of ids of the longer side; 1 if the source is blank."""
        if len(self.source) == 1:
            return 1
        return max(len(self.source), len(self.target))


def pad_ids(rows, width=None):
    """Returns int arrays as one int32 [B, width], padded at the end."""
    width = width or max(map(len, rows))
    matrix = np.zeros((len(rows), width), np.int32)
    for row, ids in zip(matrix, rows):
        row[: len(ids)] = ids
    return matrix


def validate_texts(texts, name="texts"):
    """Returns an iterable of str as a list.

    Raises InputError, which names the argument, for a single text or an item
    that is not a str of Unicode characters.
    """
    if isinstance(texts, (str, bytes)):
        raise InputError(f"Expected a list of texts as {name}, got one text.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"Expected a str as {name}[{index}], got {type(text).__name__}."
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                f"{name}[{index}] has a lone surrogate, which is no "
                "character; read the text as UTF-8."
            ) from None
    return texts
