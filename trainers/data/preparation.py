"""Tokenizes a corpus into shards, and resumes after an interruption."""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import typing
from collections.abc import Callable, Iterator

import numpy as np

from export.common.errors import InputError
from export.common.processes import folder_lock
from export.common.progress_bar import ProgressBar
from export.common.storage import remove_temporary_files, write_bytes
from export.model_directory import ModelDirectory
from trainers.augmentation.noise import make_noise, parse_noise
from trainers.data.cleaning import validate_languages
from trainers.data.codecs import (
    make_codec,
    make_codec_files,
    validate_vocabulary,
)
from trainers.data.corpus import Corpus, describe_fingerprint_change
from trainers.data.counting import count_training_pairs
from trainers.data.filters import parse_filters
from trainers.data.manifest import (
    CLEANING_CHOICES,
    MANIFEST_FILE,
    DataSource,
    Manifest,
    Split,
    is_dev,
    read_manifest,
    write_manifest,
)
from trainers.data.pair_scores import select_pairs
from trainers.data.prepared_corpus import (
    SYMBOLS_FILE,
    TEST_FILE,
    VOCABULARY_FILE,
    PreparedCorpus,
    read_codec_files,
    sha256,
    validate_codec,
    write_shard,
)
from trainers.data.tokenization import (
    ALL_PAIRS,
    Settings,
    cut_into_chunks,
    tokenize_chunk,
)
from trainers.data.vocabulary import describe_normalization, format_characters

if typing.TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary

# Far longer than sentences; trainers.wmt applies its own --max_tokens.
MAX_STORED_TOKENS = 1024
# Vocabularies trained on the same text have hundreds of times fewer.
MAX_UNKNOWN = 0.05
# Default share of training pairs with copied text.
COPY_RATE = 0.05
# Default shares of pairs with noise (docs/measured/noise.md).
NOISE = (
    "upper=0.005,title=0.005,lower=0.015,typos=0.04,punctuation=0.015,"
    "words=0.01"
)

# Tokenized chunks per shard: the most that an interruption loses.
_CHUNKS_PER_SHARD = 20
# For text alone; their defaults have no effect.
_TEXT_CHOICES = ("noise", "segmentations", *CLEANING_CHOICES)


def make_data_source(
    corpus: Corpus, vocabulary_size: int, max_tokens: int, **choices: typing.Any
) -> DataSource:
    """Returns the DataSource of a corpus prepared with these settings.

    `choices` come from `dataset_flags.preparation_choices`.
    """
    return DataSource(
        dataset=corpus.name,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        fingerprint=corpus.fingerprint(),
        vocabulary_size=vocabulary_size,
        max_tokens=max_tokens,
        **choices,
    )


def prepare_corpus(
    folder: str | os.PathLike,
    corpus: Corpus,
    data_source: DataSource,
    workers: contextlib.AbstractContextManager[Callable[..., Iterator]],
    vocabulary: bytes | None = None,
    symbols: "SymbolVocabulary | None" = None,
    max_unknown: float = MAX_UNKNOWN,
    pair_scores: pathlib.Path | None = None,
) -> PreparedCorpus:
    """Tokenizes a corpus into shards, and returns the PreparedCorpus.

    Resumes an interrupted preparation, and only opens a complete one.
    `data_source` comes from `make_data_source`; pairs with more than its
    `max_tokens` ids on a side are skipped and counted. `workers` is a context
    of a map such as `map_in_threads`, entered if there is something to do,
    `vocabulary` the bytes of a SentencePiece model and `symbols` a
    SymbolVocabulary for trees, both by default made from the train split.
    `max_unknown` is the maximum share of unknown tokens on a side of a split,
    and `pair_scores` the path of the scores in `data_source`, if any.
    """
    _validate_choices(corpus, data_source)
    folder = pathlib.Path(folder)
    codec = vocabulary, symbols
    manifest = _reusable_manifest(folder, data_source, *codec)
    # Complete data may be in a read-only folder.
    if not (manifest and manifest.complete):
        folders = (folder, *folder.parents)
        new_folders = [each for each in folders if not each.exists()]
        try:
            with folder_lock(folder, "preparation"), workers as ordered_map:
                preparation = _Preparation(
                    *(folder, corpus, data_source, ordered_map),
                    *(max_unknown, pair_scores),
                )
                preparation.run(*codec)
        except InputError:
            for each in new_folders:
                # Fails if it holds shards, or files of another process.
                with contextlib.suppress(OSError):
                    each.rmdir()
            raise
    return PreparedCorpus(folder)


def _validate_choices(corpus, data_source):
    if corpus.kind == "trees":
        for name in _TEXT_CHOICES:
            if getattr(data_source, name) != getattr(DataSource, name):
                raise InputError(
                    f"--{name} is for text, not for trees; omit it."
                )
    parse_noise(data_source.noise)
    parse_filters(data_source.filters)
    if corpus.directions:
        for name in ("check_languages", "noise"):
            if getattr(data_source, name) != getattr(DataSource, name):
                raise InputError(
                    f"--{name} is for a corpus of two languages, not for a "
                    "mixture; omit it."
                )
    if data_source.check_languages:
        validate_languages(corpus)


def _reusable_manifest(folder, data_source, vocabulary, symbols):
    """Returns the manifest of data from the same source, or None.

    InputError if complete data are of another source, or any of another codec.
    """
    manifest = read_manifest(folder)
    if manifest and manifest.source == data_source:
        validate_codec(folder, manifest, vocabulary, symbols)
        return manifest
    if not (manifest and manifest.complete):
        return None
    old = dataclasses.asdict(manifest.source)
    new = dataclasses.asdict(data_source)
    name = next(name for name in new if old[name] != new[name])
    difference = f"{name}={old[name]}, not {new[name]}"
    if name == "fingerprint":
        change = describe_fingerprint_change(old[name], new[name])
        difference = f"other files: {change}"
    raise InputError(
        f"{folder} holds data prepared with {difference}; use another folder, "
        "or the same files and flags as before."
    )


class _Preparation:
    """One run of `prepare_corpus` in a locked folder."""

    def __init__(
        self, folder, corpus, data_source, ordered_map, max_unknown, pair_scores
    ):
        self._folder = folder
        self._corpus = corpus
        self._data_source = data_source
        self._ordered_map = ordered_map
        self._max_unknown = max_unknown
        self._pair_scores = pair_scores

    def run(self, vocabulary, symbols):
        folder, splits = self._folder, self._corpus.splits()
        # Checked again under the lock: another process may have finished.
        manifest = _reusable_manifest(
            folder, self._data_source, vocabulary, symbols
        )
        if manifest and manifest.complete:
            return
        # Counting is much faster than tokenizing, and finds malformed lines.
        counts = count_training_pairs(
            self._corpus, self._data_source, vocabulary
        )
        self._noise = make_noise(
            self._corpus, self._data_source, counts.num_pairs
        )
        is_good = ALL_PAIRS
        if self._pair_scores:
            source = self._data_source
            is_good = select_pairs(
                *(self._pair_scores, source.keep_share),
                *(source.fingerprint, counts.num_pairs),
            )
        masks = {"is_unique": counts.is_unique, "is_good": is_good}
        totals = {"train": counts.num_pairs}
        for name in filter(is_dev, splits):
            totals[name] = counts.overlaps[name].total
        is_new = manifest is None
        if is_new and ModelDirectory(folder).config_path.exists():
            raise InputError(
                f"{folder} is a model directory; give another folder for the "
                "prepared data."
            )
        try:
            if is_new:
                manifest = self._write_codec_files(counts, vocabulary, symbols)
            self._write_splits(manifest, totals, masks)
        except InputError as error:
            # A full disk allows resuming. Other errors would occur again, even
            # with another vocabulary.
            if is_new and not isinstance(error.__cause__, OSError):
                _clear(folder)
            raise

    def _write_codec_files(self, counts, vocabulary, symbols):
        """Writes vocabulary, symbols and manifest; returns the Manifest."""
        folder, corpus = self._folder, self._corpus
        expected = self._data_source
        _clear(folder)
        files = make_codec_files(corpus, expected, counts, vocabulary, symbols)
        codec = make_codec(corpus.kind, files)
        validate_vocabulary(codec, corpus, expected, vocabulary is not None)
        normalization = describe_normalization(counts.code_points, codec.models)
        print(normalization, flush=True)
        for name, content in files.items():
            write_bytes(folder / name, content)
        digests = {name: sha256(content) for name, content in files.items()}
        manifest = Manifest(
            source=expected,
            vocabulary_sha256=digests[VOCABULARY_FILE],
            symbols_sha256=digests.get(SYMBOLS_FILE, ""),
            overlaps=counts.overlaps,
        )
        write_manifest(folder, manifest)
        return manifest

    def _write_splits(self, manifest, totals, masks):
        folder, corpus = self._folder, self._corpus
        for pattern in ("*.npy", "*.json", "*.model"):
            remove_temporary_files(folder, pattern)
        codec = make_codec(corpus.kind, read_codec_files(folder, manifest))
        if "test" in corpus.splits():
            content = dataclasses.asdict(corpus.evaluation_set("test"))
            text = json.dumps(content, ensure_ascii=False).encode("utf-8")
            write_bytes(folder / TEST_FILE, text)
            manifest = dataclasses.replace(manifest, test_sha256=sha256(text))
            chunks = self._tokenize("test", codec)
            test = functools.reduce(Split.with_chunk, chunks, Split())
            self._validate_unknown_share("test", test)
        for name, total in totals.items():
            tokenize = functools.partial(self._tokenize, name, codec)
            if name == "train":
                total *= self._data_source.segmentations
                tokenize = functools.partial(tokenize, **masks)
            manifest = self._write_split(manifest, name, total, tokenize)
            self._validate_unknown_share(name, manifest.splits[name])
        write_manifest(folder, dataclasses.replace(manifest, complete=True))

    def _tokenize(self, name, codec, first=0, **masks):
        """Yields the TokenizedChunks of a split from pair `first` on.

        For `masks` see `cut_into_chunks`.
        """
        corpus, source, times = self._corpus, self._data_source, 1
        size = max(codec.source_vocabulary_size, codec.target_vocabulary_size)
        settings = Settings(
            codec=codec,
            max_tokens=source.max_tokens,
            dtype=np.uint16 if size <= 1 << 16 else np.int32,
        )
        # Those of a mixture are in its texts.
        if not corpus.num_tags:
            languages = corpus.source_language, corpus.target_language
            settings = settings._replace(
                model_languages=codec.languages(*languages)
            )
        if name == "train":
            times = source.segmentations
            settings = settings._replace(
                # Without bytes the copies would be unknown tokens.
                copy_rate=source.copy_rate if codec.has_byte_fallback else 0.0,
                noise=self._noise,
                max_ratio=source.max_ratio,
                languages=source.languages,
                filters=parse_filters(source.filters),
                samples=times > 1,
            )
        pairs = itertools.chain.from_iterable(
            corpus.pairs(name) for _ in range(times)
        )
        pairs = itertools.islice(pairs, first, None)
        return self._ordered_map(
            functools.partial(tokenize_chunk, settings),
            cut_into_chunks(pairs, first=first, **masks),
        )

    def _write_split(self, manifest, name, total, tokenize):
        """Writes the missing shards of a split; returns the new Manifest.

        `tokenize` returns a generator of TokenizedChunks from a pair on, of
        `total`.
        """
        direction = self._corpus.directions.get(name, ())
        split = manifest.splits.get(name, Split(direction=direction))
        with (
            # Ends its threads here: after an error, the garbage collector could
            # wait for them when no thread can start or end.
            contextlib.closing(tokenize(split.num_read)) as stream,
            ProgressBar(f"Tokenizing {name}", total, "pairs") as bar,
        ):
            bar.skip(split.num_read)
            while chunks := list(itertools.islice(stream, _CHUNKS_PER_SHARD)):
                ids = np.concatenate([chunk.ids for chunk in chunks])
                lengths = np.concatenate([chunk.lengths for chunk in chunks])
                shard_name = f"{name}-{len(split.shards):05d}"
                shard = write_shard(self._folder, shard_name, ids, lengths)
                split = functools.reduce(Split.with_chunk, chunks, split)
                split = dataclasses.replace(
                    split, shards=(*split.shards, shard)
                )
                splits = {**manifest.splits, name: split}
                manifest = dataclasses.replace(manifest, splits=splits)
                write_manifest(self._folder, manifest)
                bar.update(sum(chunk.num_read for chunk in chunks))
        if split.num_unencodable:
            print(
                f"Pairs of {name} skipped in training and perplexity: "
                f"{split.num_unencodable:,}; the first is "
                f"{split.first_unencodable}",
                flush=True,
            )
        if not split.num_pairs:
            raise InputError(
                f"No sentence pair of {name} is left ({split.num_too_long:,} "
                f"have more than {manifest.source.max_tokens} tokens on a "
                f"side, {split.num_unencodable:,} a target that cannot be "
                f"encoded, {split.cleaning.total:,} were removed by cleaning); "
                "check the data set."
            )
        return manifest

    def _validate_unknown_share(self, name, split):
        """Prints each side's share of unknown tokens; InputError if high."""
        for side in ("source", "target"):
            counts = getattr(split, side)
            if not counts.num_unknown:
                continue
            share = counts.num_unknown / counts.num_tokens
            text = f"{share:.2%} of the {side} tokens of {name} are unknown"
            if counts.unknown_characters:
                examples = format_characters(counts.unknown_characters)
                text += f", such as {examples}"
            if share > self._max_unknown:
                raise InputError(
                    f"{text}; use a vocabulary that covers this text, or raise "
                    f"--max_unknown={self._max_unknown}."
                )
            print(f"{text}.", flush=True)


def _clear(folder):
    # Without a manifest, the files may belong to another program.
    if (folder / MANIFEST_FILE).exists():
        names = (VOCABULARY_FILE, SYMBOLS_FILE, TEST_FILE, MANIFEST_FILE)
        for pattern in ("train-*.npy", "dev-*.npy", *names):
            for path in folder.glob(pattern):
                path.unlink()
