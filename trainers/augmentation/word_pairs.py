"""Finds words of training pairs that translate each other.

Translation probabilities are those of IBM Model 1 (Brown et al. 1993), without
regard to case.
"""

import collections
import itertools
import math
import random
import re
import typing
from collections.abc import Iterable

import numpy as np

# Words of letters and digits; an apostrophe ends one, as in "l'homme".
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*['’]?")
# The sample of pairs, and the length of its sentences, limit time and memory.
_MAX_PAIRS, _MAX_WORDS = 50_000, 25
_ITERATIONS = 5
_MIN_PROBABILITY = 0.2
_MIN_COUNT = 3
# Probability that a phrase has the next word, too.
_CONTINUE_PROBABILITY = 0.35
# From a word to its count and its translations.
WordPairs = dict[str, tuple[int, list[str]]]


def learn_word_pairs(
    pairs: Iterable[tuple[str, str]], num_pairs: int
) -> WordPairs:
    """Returns the likely translations of source words.

    `pairs` is an iterator of `num_pairs` (source, target), of which a sample
    counts. The result is a dict from a word to its count and its translations.
    """
    stride = math.ceil(num_pairs / _MAX_PAIRS)
    sample = [
        [[*map(_key, _WORD.finditer(text))] for text in pair]
        for pair in itertools.islice(pairs, 0, None, stride)
    ]
    sample = [pair for pair in sample if max(map(len, pair)) <= _MAX_WORDS]
    source_ids, target_ids = (
        {word: i for i, word in enumerate(dict.fromkeys(words))}
        for words in (
            (word for pair in sample for word in pair[side]) for side in (0, 1)
        )
    )
    if not (source_ids and target_ids):
        return {}
    num_targets, null = len(target_ids), len(source_ids)
    # For each target word, the source words that it may translate, or none.
    keys: typing.Any = []
    key_type = np.min_scalar_type((null + 1) * num_targets)
    lengths: list[int] = []
    for source, target in sample:
        sources = np.array([*map(source_ids.get, source), null], key_type)
        targets = np.array([*map(target_ids.get, target)], key_type)
        keys.append(
            (sources * key_type.type(num_targets) + targets[:, None]).ravel()
        )
        lengths += [len(sources)] * len(targets)
    # Of a target word's occurrence.
    groups = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    # The lists take as much memory as the array.
    keys = np.concatenate(keys)
    keys, indices = np.unique(keys, return_inverse=True)
    indices = indices.astype(np.int32)
    sources, targets = np.divmod(keys, num_targets)
    probabilities = np.ones(len(keys))
    for _ in range(_ITERATIONS):
        shares = probabilities[indices]
        shares /= np.bincount(groups, shares)[groups]
        counts = np.bincount(indices, shares)
        probabilities = counts / np.bincount(sources, counts)[sources]
    words = collections.Counter(word for pair in sample for word in pair[0])
    source_words, target_words = [*source_ids], [*target_ids]
    translations: WordPairs = {}
    is_likely = (probabilities >= _MIN_PROBABILITY) & (sources != null)
    # The likeliest translation first.
    order = np.argsort(-probabilities, kind="stable")
    for index in order[is_likely[order]].tolist():
        word = source_words[sources[index]]
        if words[word] >= _MIN_COUNT:
            _, found = translations.setdefault(word, (words[word], []))
            found.append(target_words[targets[index]])
    return translations


def select_phrase(
    rng: random.Random, translations: WordPairs, source: str, target: str
) -> tuple[str, str]:
    """Returns one to a few words of a pair that translate each other.

    Rare words are more likely. The pair is unchanged if it has none.
    """
    sources, targets = ([*_WORD.finditer(text)] for text in (source, target))
    places = collections.defaultdict(list)
    for index, match in enumerate(targets):
        places[_key(match)].append(index)
    links, weights = {}, []
    for index, match in enumerate(sources):
        count, words = translations.get(_key(match), (0, ()))
        unique = [places[word] for word in words if len(places[word]) == 1]
        # The first word of a sentence is capitalized.
        found = [other for (other,) in unique if other and index]
        if found and not _is_part(match) and not _is_part(targets[found[0]]):
            links[index] = found[0]
            weights.append(1 / math.sqrt(count))
    if not links:
        return source, target
    (first,) = rng.choices([*links], weights)
    last, low, high = first, links[first], links[first]
    while rng.random() < _CONTINUE_PROBABILITY:
        other: typing.Any = links.get(last + 1)
        if other not in (low - 1, high + 1):
            break
        gap = source[sources[last].end() : sources[last + 1].start()]
        if gap.strip():
            break
        last, low, high = last + 1, min(low, other), max(high, other)
    return (
        source[sources[first].start() : sources[last].end()],
        target[targets[low].start() : targets[high].end()],
    )


def _key(match):
    return match[0].lower().replace("’", "'")


def _is_part(match):
    """Whether a word is a part of one, as "don'" and "t" are of "don't"."""
    word, before = match[0], match.string[match.start() - 1 : match.start()]
    return word[-1] in "'’" or (len(word) < 3 and before in ("'", "’"))
