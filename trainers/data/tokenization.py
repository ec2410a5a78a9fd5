"""Cleans and tokenizes chunks of pairs: pure functions, for any worker."""

import functools
import itertools
import typing
import unicodedata
from collections.abc import Iterator

import numpy as np

from export.tokenizers.tags import split_tags
from export.translators.languages import Languages
from keras_transformer.config import UNKNOWN_ID
from trainers.augmentation.copies import add_copies
from trainers.augmentation.noise import Noise, add_noise
from trainers.data.cleaning import exceeds_ratio, has_languages
from trainers.data.filters import find_filter
from trainers.data.manifest import NUM_EXAMPLES, CleaningCounts, SideCounts
from trainers.data.removed_pairs import sample_pairs

# Pairs per chunk: large enough to make call overhead negligible.
_CHUNK_PAIRS = 5_000
ALL_PAIRS = np.ones(1, bool)


class Chunk(typing.NamedTuple):
    """Consecutive pairs of a split.

    `first` is the index of the first pair in the split. `num_read` includes
    `num_duplicates`, and pairs of low scores, which are not in `pairs`, a list
    of (source, target) str; `examples` are those of CleaningCounts.
    """

    first: int
    num_read: int
    num_duplicates: int
    examples: dict[str, tuple]
    pairs: list[tuple[str, str]]


class TokenizedChunk(typing.NamedTuple):
    """Token ids of a Chunk, without the pairs that are skipped.

    `ids` [tokens] has the source and the target of each pair in turn, and
    `lengths`, uint16 [pairs, 2], their lengths; `source` and `target` count
    their tokens. `unencodable` lists (index among the chunk's pairs, reason)
    for targets that cannot be encoded.
    """

    num_read: int
    ids: np.ndarray
    lengths: np.ndarray
    source: SideCounts
    target: SideCounts
    unencodable: list[tuple[int, str]]
    cleaning: CleaningCounts = CleaningCounts()


class Settings(typing.NamedTuple):
    """Settings of `tokenize_chunk`, picklable.

    Pairs with a side of more than `max_tokens` ids are skipped, as are those
    of more than `max_ratio` (0 for any), and pairs that are not in the two
    `languages` (() for any), or that one of `filters` removes. `dtype` is that
    of the ids. Sources get the tags of `model_languages`. With `samples`, words
    are segmented at random, with the index of the chunk's first pair as seed.
    """

    codec: typing.Any
    max_tokens: int
    dtype: type = np.int32
    samples: bool = False
    copy_rate: float = 0.0
    noise: Noise = Noise()
    max_ratio: float = 0.0
    languages: tuple[str, ...] = ()
    filters: dict[str, float] = {}
    model_languages: Languages = Languages()


def cut_into_chunks(
    pairs: Iterator[tuple[str, str]],
    is_unique: np.ndarray = ALL_PAIRS,
    is_good: np.ndarray = ALL_PAIRS,
    first: int = 0,
) -> Iterator[Chunk]:
    """Yields Chunks of an iterator of pairs, whose first has index `first`.

    `is_unique`, bool [N], is False for duplicates, and `is_good`, bool [M], for
    pairs of low scores; they repeat every N and M pairs.
    """
    while batch := list(itertools.islice(pairs, _CHUNK_PAIRS)):
        indices = np.arange(first, first + len(batch))
        unique = is_unique[indices % len(is_unique)]
        good = is_good[indices % len(is_good)]
        removed = {"duplicate": ~unique, "score": unique & ~good}
        examples = {
            rule: sample_pairs(itertools.compress(batch, mask.tolist()))
            for rule, mask in removed.items()
            if mask.any()
        }
        num_duplicates = len(batch) - int(np.count_nonzero(unique))
        kept = [*itertools.compress(batch, (unique & good).tolist())]
        yield Chunk(first, len(batch), num_duplicates, examples, kept)
        first += len(batch)


def tokenize_chunk(settings: Settings, chunk: Chunk) -> TokenizedChunk:
    """Returns the TokenizedChunk of a Chunk."""
    codec, encoders = settings.codec, None
    if settings.samples:
        generator = np.random.default_rng(chunk.first)
        encoders = [
            functools.partial(encode, generator=generator)
            for encode in codec.sampling_encoders
        ]
    pairs, cleaning = _clean(settings, chunk)
    pairs = add_noise(pairs, settings.noise)
    pairs = [*add_copies(pairs, settings.copy_rate)]
    reasons = [codec.explain_unencodable(target) for _, target in pairs]
    pairs = [pair for pair, reason in zip(pairs, reasons) if not reason]
    # Source and target in turn.
    texts, ids = [], []
    for pair, pair_ids in zip(pairs, _encode(settings, pairs, encoders)):
        if max(map(len, pair_ids)) <= settings.max_tokens:
            texts += pair
            ids += pair_ids
    lengths = np.array([len(each) for each in ids], np.uint16)
    return TokenizedChunk(
        num_read=chunk.num_read,
        ids=_concatenate(ids).astype(settings.dtype),
        lengths=lengths.reshape(-1, 2),
        source=_count_side(texts[::2], ids[::2], codec.encode_sources),
        target=_count_side(texts[1::2], ids[1::2], codec.encode_targets),
        unencodable=[(i, reason) for i, reason in enumerate(reasons) if reason],
        cleaning=cleaning,
    )


def _clean(settings, chunk):
    """Returns the pairs to tokenize, and the CleaningCounts of the others."""
    pairs, removed, normalizers = [], {}, None
    if settings.languages or settings.filters:
        normalizers = settings.codec.normalizers
    for pair in chunk.pairs:
        rule = None
        if settings.languages and not has_languages(
            pair, settings.languages, normalizers
        ):
            rule = "language"
        rule = rule or find_filter(pair, normalizers, settings.filters)
        (removed.setdefault(rule, []) if rule else pairs).append(pair)
    balanced = pairs
    if settings.max_ratio:
        balanced = []
        for pair, ids in zip(pairs, _encode(settings, pairs)):
            exceeds = _exceeds_ratio(settings, pair, ids)
            (removed.setdefault("ratio", []) if exceeds else balanced).append(
                pair
            )
    counts = {rule: len(each) for rule, each in removed.items()}
    examples = {rule: sample_pairs(each) for rule, each in removed.items()}
    return balanced, CleaningCounts(
        duplicate=chunk.num_duplicates,
        language=counts.pop("language", 0),
        ratio=counts.pop("ratio", 0),
        filters=counts,
        score=chunk.num_read - chunk.num_duplicates - len(chunk.pairs),
        examples=chunk.examples | examples,
    )


def _exceeds_ratio(settings, pair, ids):
    """Whether the ids of a pair exceed the ratio, without tags of languages."""
    source = settings.model_languages.tag(pair[0])
    tags, _ = split_tags(source, settings.codec.num_tags)
    # Of two tags the target has one, and each side one id for it.
    num_source_tags, num_target_tags = len(tags[:1]), len(tags[1:])
    return exceeds_ratio(
        len(ids[0]) - num_source_tags,
        len(ids[1]) - num_target_tags,
        settings.max_ratio,
    )


def _encode(settings, pairs, encoders=None):
    """Returns an iterator of (source ids, target ids).

    `encoders` replace the codec's for source and target. A model with tags of
    both languages is trained as in fairseq: the target's is the first token of
    the target.
    """
    codec, tag = settings.codec, settings.model_languages.tag
    encode_sources, encode_targets = encoders or (
        codec.encode_sources,
        codec.encode_targets,
    )
    sources = encode_sources([tag(source) for source, _ in pairs])
    targets = encode_targets([target for _, target in pairs])
    if codec.has_both_tags:
        return (
            (source[1:], np.concatenate([source[:1], target]))
            for source, target in zip(sources, targets)
        )
    return zip(sources, targets)


def _concatenate(ids):
    return np.concatenate([np.zeros(0, np.int32), *ids])


def _count_side(texts, ids, encode):
    """Returns the SideCounts of texts and their ids, a list of arrays."""
    ends = np.cumsum([len(each) for each in ids])
    unknown = np.flatnonzero(_concatenate(ids) == UNKNOWN_ID)
    # The text index of each unknown id.
    indices = np.searchsorted(ends, unknown, side="right")
    examples = [texts[index] for index in np.unique(indices)[:NUM_EXAMPLES]]
    text = unicodedata.normalize("NFC", " ".join(examples))
    characters = [c for c in dict.fromkeys(text) if not c.isspace()]
    is_unknown = (UNKNOWN_ID in each for each in encode(characters))
    found = itertools.compress(characters, is_unknown)
    return SideCounts(
        num_tokens=sum(map(len, ids)),
        num_unknown=len(unknown),
        unknown_characters="".join(itertools.islice(found, NUM_EXAMPLES)),
    )
