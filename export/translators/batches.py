"""Batches of similar lengths; limits, padding and validation of texts."""

import contextlib
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import numpy as np

from export.common.errors import InputError
from export.common.parallel import map_in_threads

if typing.TYPE_CHECKING:
    from keras_transformer.config import TransformerConfig

# One batch computes matrix products while another runs single-threaded code.
NUM_THREADS = 2
# Compiled searches pad ids to 16, 32, 64, ... or to their limit.
MIN_PADDED_LENGTH = 16
# Source tokens in a batch, padding included.
BATCH_TOKENS = 2048
# Gets the number of new results.
OnProgress: typing.TypeAlias = Callable[[int], object] | None
# Far above real text, but not above all: see `Tokenizer.tokenize`.
_CHARACTERS_PER_TOKEN = 64


def map_in_batches(
    lengths: Sequence[int],
    batch_tokens: int,
    function: Callable[[list[int]], Iterable[typing.Any]],
    on_progress: OnProgress = None,
    num_threads: int = NUM_THREADS,
    batch_size: int | None = None,
) -> list[typing.Any]:
    """Maps sentences of these lengths in batches of `batch_by_length`.

    `function` is a thread-safe function of a list of sentence indices that
    returns a result for each; `on_progress` gets the number of new results.
    Returns a list of results, None for blank sentences, which are in no batch.
    """
    results = [None] * len(lengths)
    batches = [*batch_by_length(lengths, batch_tokens, batch_size)]
    if 0 < len(batches) <= num_threads:
        # All threads finish at about the same time.
        share = -(-sum(map(len, batches)) // num_threads)
        batches = [*batch_by_length(lengths, batch_tokens, share)]
    # A single batch needs no other thread.
    num_threads = max(min(num_threads, len(batches)), 1)
    with contextlib.closing(
        parallel_map(function, batches, num_threads)
    ) as results_of_batches:
        for batch, batch_results in zip(batches, results_of_batches):
            for index, result in zip(batch, batch_results):
                results[index] = result
            if on_progress is not None:
                on_progress(len(batch))
    return results


def parallel_map(
    function: Callable[[typing.Any], typing.Any],
    items: Iterable[typing.Any],
    num_threads: int = NUM_THREADS,
) -> Generator[typing.Any, None, None]:
    """As `map_in_threads`; a single thread is the caller's.

    So that Ctrl-C acts at once.
    """
    if num_threads == 1:
        return (function(item) for item in items)
    # Their results are small: no thread waits for the slowest of a few.
    return map_in_threads(function, items, num_threads, pending_per_thread=100)


def batch_by_length(
    lengths: Sequence[int], batch_tokens: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """Yields lists of sentence indices, the longest sentences first.

    `lengths` include the end id, so a length of 1 is a blank sentence, which is
    in no batch. A batch has `batch_size` sentences, or without it at most
    `batch_tokens` tokens, padding included, or 1 sentence.
    """
    indices = [i for i, length in enumerate(lengths) if length > 1]
    indices.sort(key=lambda i: lengths[i], reverse=True)
    start = 0
    while start < len(indices):
        size = batch_size or max(batch_tokens // lengths[indices[start]], 1)
        yield indices[start : start + size]
        start += size


def next_power(number: int, least: int = 1) -> int:
    """Returns the first power of 2 from `number` and `least` on.

    Sizes are padded to it, so that few shapes are compiled.
    """
    return max(1 << (number - 1).bit_length(), least)


def length_limits(
    config: "TransformerConfig", max_source_tokens: int
) -> tuple[int, int]:
    """Returns the maximum numbers of ids of a source and its translation."""
    source = truncation_limit(config, max_source_tokens)
    return source, truncation_limit(config, source + config.max_extra_tokens)


def truncation_limit(config: "TransformerConfig", max_tokens: int) -> int:
    """Returns `max_tokens`, or the number of learned positions if lower."""
    if config.positions == "learned":
        return min(max_tokens, config.max_positions)
    return max_tokens


def character_limit(max_tokens: int) -> int:
    """Returns the maximum number of characters of `max_tokens` tokens."""
    return _CHARACTERS_PER_TOKEN * max_tokens


def pad_ids(
    rows: Sequence[Sequence[int] | np.ndarray], width: int | None = None
) -> np.ndarray:
    """Returns int arrays as one int32 [B, width], padded at the end."""
    width = width or max(map(len, rows))
    padded = np.zeros((len(rows), width), np.int32)
    for padded_row, ids in zip(padded, rows):
        padded_row[: len(ids)] = ids
    return padded


def validate_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Returns texts as a list.

    Raises InputError, with the argument's `name`, for a single text or an item
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
                f"{name}[{index}] has a lone surrogate, which is not a "
                "character; read the text as UTF-8."
            ) from None
    return texts
