"""Sentence pairs to ids, on several threads, in order, in bounded memory."""

import collections
import concurrent.futures
import itertools
import typing

import numpy as np

# Large enough that a call costs nothing beside its work.
_CHUNK = 5_000


class TokenisedChunk(typing.NamedTuple):
    """Some pairs as ids.

    Attributes:
        read: pairs there were, those left out counted.
        ids: int32 [tokens], source and target of each pair in turn.
        lengths: int32 [pairs, 2].
    """

    read: int
    ids: np.ndarray
    lengths: np.ndarray


def tokenise(pairs, tokenizer, max_tokens, workers):
    """Yields TokenisedChunks in the order of the pairs.

    The threads do run side by side: SentencePiece does its work outside
    Python's lock. At most two chunks a thread are held.

    Args:
        pairs: iterator of (source, target) str.
        tokenizer: Tokenizer.
        max_tokens: pairs with a side of more ids than this, the end id
            counted, are left out.
        workers: number of threads.
    """

    def run(chunk):
        return _tokenise_chunk(chunk, tokenizer, max_tokens)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = collections.deque()
        try:
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                waiting.append(pool.submit(run, chunk))
                if len(waiting) == 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _tokenise_chunk(chunk, tokenizer, max_tokens):
    sources = tokenizer.encode([source for source, _ in chunk])
    targets = tokenizer.encode([target for _, target in chunk])
    lengths = np.array([list(map(len, sources)), list(map(len, targets))]).T
    kept = lengths.max(axis=1) <= max_tokens
    ids = [np.zeros(0, np.int32)]
    for number in np.flatnonzero(kept):
        ids += sources[number], targets[number]
    return TokenisedChunk(len(chunk), np.concatenate(ids), lengths[kept])
