"""Makes prepared data out of a corpus, or resumes making it."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import pathlib
import shutil

import numpy as np

from export.errors import InputError
from export.files.atomic import remove_unfinished, written_whole
from export.model_directory import ModelDirectory
from export.progress_bar import ProgressBar
from trainers.corpora.corpus import describe_fingerprint_change
from trainers.prepared.codecs import count_pairs, make_files, read_codec
from trainers.prepared.manifest import (
    FILE,
    Manifest,
    Source,
    Split,
    read_manifest,
    validate_vocabulary,
    write_manifest,
)
from trainers.prepared.normalization import (
    describe_change,
    name_of,
    show_characters,
)
from trainers.prepared.prepared_corpus import (
    SYMBOLS_FILE,
    TEST_FILE,
    VOCABULARY_FILE,
    PreparedCorpus,
    read_codec_files,
    validate_symbols,
)
from trainers.prepared.shards import TokenisedChunk, tokenise, write_shard
from trainers.processes import folder_lock

# Far more pieces than a sentence has; trainers.wmt leaves out what is longer
# than its own --max_tokens.
MAX_STORED_TOKENS = 1024
# One in twenty: a vocabulary of a text has hundreds of times fewer.
MAX_UNKNOWN = 0.05

# Chunks of tokenising in a shard: what an interruption may lose.
_SHARD_CHUNKS = 20
_UINT16_VOCABULARY = 1 << 16


def prepare_corpus(
    folder,
    corpus,
    vocabulary_size,
    max_tokens,
    workers,
    vocabulary=None,
    symbols=None,
    normalization="auto",
    max_unknown=MAX_UNKNOWN,
):
    """Tokenises the train and dev splits of a corpus into shards.

    What an interrupted run wrote is kept and gone on with. Where all is done
    already, nothing is done.

    Args:
        folder: where they go.
        corpus: Corpus.
        vocabulary_size: V.
        max_tokens: pairs with a side of more pieces, the end id counted, are
            left out and counted.
        workers: number of threads.
        vocabulary: bytes of a SentencePiece model to use; None to train one
            on the train split: on both sides, of trees on the words.
        symbols: of trees, the `export.parsing.linear.Symbols` to use; None
            for those of the train split.
        normalization: one of `normalization.NAMES`, for a vocabulary that is
            trained; else "auto" or the name of its own.
        max_unknown: highest share of a side's pieces in a split that may be
            unknown, 0 to 1.

    Returns:
        PreparedCorpus.

    Raises:
        InputError: the corpus is broken or does not fit the vocabulary size,
            too much of it is unknown, the folder holds other data, cannot be
            written, or another process prepares data there.
    """
    folder = pathlib.Path(folder)
    new = _missing(folder)
    source = make_source(corpus, vocabulary_size, max_tokens, normalization)
    # What is complete may lie where nothing can be written.
    if not _is_complete(_of_same_source(folder, source)):
        with folder_lock(folder, "preparation"):
            try:
                _go_on(
                    folder,
                    corpus,
                    source,
                    workers,
                    vocabulary,
                    symbols,
                    max_unknown,
                )
            except InputError as error:
                # A disk may get room again; a broken corpus becomes another.
                if new and not isinstance(error.__cause__, OSError):
                    _remove(new)
                raise
    prepared = PreparedCorpus(folder)
    validate_vocabulary(folder, prepared.manifest, vocabulary)
    validate_symbols(folder, prepared.manifest, symbols)
    return prepared


def _is_complete(manifest):
    return manifest is not None and manifest.complete


def _go_on(folder, corpus, source, workers, vocabulary, symbols, max_unknown):
    # Read once more: another process may have been at it until just now.
    manifest = _of_same_source(folder, source)
    if _is_complete(manifest):
        return
    # Reading is quick beside tokenising, and finds a broken line before it.
    train, counts = count_pairs(corpus)
    totals = {"train": train}
    if "dev" in corpus.splits():
        totals["dev"] = sum(1 for _ in corpus.pairs("dev"))
    begins = manifest is None
    if begins:
        files = (vocabulary, symbols)
        manifest = _begin(folder, corpus, source, train, counts, *files)
    validate_vocabulary(folder, manifest, vocabulary)
    validate_symbols(folder, manifest, symbols)
    try:
        _prepare(folder, corpus, manifest, totals, workers, max_unknown)
    except _TooManyUnknown:
        # Another vocabulary would be refused where this one has begun.
        if begins:
            _clear(folder)
            (folder / VOCABULARY_FILE).unlink()
        raise


def _missing(folder):
    """Returns the folder and those above it that are to be made."""
    try:
        return [each for each in (folder, *folder.parents) if not each.exists()]
    except OSError as error:
        raise InputError(
            f"Cannot keep prepared data in {folder}: {error.strerror}."
        ) from error


def _remove(new):
    shutil.rmtree(new[0], ignore_errors=True)
    for above in new[1:]:
        # Somebody else may have put something there.
        with contextlib.suppress(OSError):
            above.rmdir()


def make_source(corpus, vocabulary_size, max_tokens, normalization="auto"):
    """Returns the Source that `prepare_corpus` would write down."""
    return Source(
        dataset=corpus.name,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        fingerprint=corpus.fingerprint(),
        vocabulary_size=vocabulary_size,
        max_tokens=max_tokens,
        normalization=normalization,
    )


def _of_same_source(folder, source):
    """Returns the manifest that is there; None when there is nothing of use."""
    manifest = read_manifest(folder)
    if manifest is None or manifest.source == source:
        return manifest
    if not manifest.complete:
        return None
    there = dataclasses.asdict(manifest.source)
    name, value = next(
        (name, value)
        for name, value in dataclasses.asdict(source).items()
        if there[name] != value
    )
    if name == "fingerprint":
        raise InputError(
            f"{source.dataset} changed since {folder} was prepared: "
            f"{describe_fingerprint_change(there[name], value)}; "
            "restore it, or use another folder for the changed data."
        )
    raise InputError(
        f"{folder} holds data prepared with {name}={there[name]}, not "
        f"{value}; use another folder, or the same flags as before."
    )


def _begin(folder, corpus, source, pairs, counts, vocabulary, symbols):
    """Clears what is of no use, writes vocabularies and a first manifest."""
    if ModelDirectory(folder).config_path.exists():
        raise InputError(
            f"{folder} is a model directory; give another folder for the "
            "prepared data."
        )
    if (folder / FILE).exists():
        _clear(folder)
    size = source.vocabulary_size
    asked = source.normalization
    files = make_files(corpus, size, pairs, counts, asked, vocabulary, symbols)
    codec = read_codec(corpus.kind, files)
    pieces = codec.source_vocabulary_size
    if pieces != size:
        raise InputError(
            f"The vocabulary to use has {pieces} pieces, not "
            f"vocabulary_size={size}; use --set=vocabulary_size={pieces}, or "
            f"with trainers.prepare --vocabulary_size={pieces}."
        )
    name = name_of(codec.models[0])
    if vocabulary and asked not in ("auto", name):
        raise InputError(
            f"The vocabulary to use was trained with --normalization={name}, "
            f"not {asked}; leave the flag out."
        )
    print(describe_change(counts, codec.models), flush=True)
    digests = {}
    for name, content in files.items():
        digests[name] = _write(folder / name, content)
    manifest = Manifest(
        source,
        digests[VOCABULARY_FILE],
        symbols_sha256=digests.get(SYMBOLS_FILE, ""),
    )
    write_manifest(folder, manifest)
    return manifest


def _clear(folder):
    # The manifest last: without it, the others may be somebody else's.
    others = (SYMBOLS_FILE, TEST_FILE, FILE)
    for pattern in ("*.ids.npy", "*.lengths.npy", *others):
        for path in folder.glob(pattern):
            path.unlink()


def _prepare(folder, corpus, manifest, totals, workers, max_unknown):
    for pattern in ("*.npy", "*.json", "*.model"):
        remove_unfinished(folder, pattern)
    codec = read_codec(corpus.kind, read_codec_files(folder, manifest))
    if "test" in corpus.splits():
        digest = _write_test_set(folder, corpus.evaluation_set("test"))
        manifest = dataclasses.replace(manifest, test_sha256=digest)
        pairs, limit = corpus.pairs("test"), manifest.source.max_tokens
        test = TokenisedChunk.joined([*tokenise(pairs, codec, limit, workers)])
        tokens = test.lengths.sum(axis=0)
        _check_unknown("test", tokens, test.unknown, max_unknown)
    for name, total in totals.items():
        manifest = _prepare_split(
            folder, corpus, codec, manifest, name, total, workers
        )
        split = manifest.splits[name]
        tokens = split.source_tokens, split.target_tokens
        _check_unknown(name, tokens, split.unknown, max_unknown)
    write_manifest(folder, dataclasses.replace(manifest, complete=True))


def _prepare_split(folder, corpus, codec, manifest, name, total, workers):
    split = manifest.splits.get(name, Split())
    pairs = itertools.islice(corpus.pairs(name), split.read, None)
    max_tokens = manifest.source.max_tokens
    with (
        # Its threads must end here: left to the garbage collector after an
        # error, they could be waited for where none can start or end.
        contextlib.closing(
            tokenise(pairs, codec, max_tokens, workers)
        ) as chunks,
        ProgressBar(
            f"Tokenising {name}", total, "pairs", done=split.read
        ) as bar,
    ):
        while part := list(itertools.islice(chunks, _SHARD_CHUNKS)):
            whole = TokenisedChunk.joined(part)
            shard = write_shard(
                folder,
                f"{name}-{len(split.shards):05d}",
                whole.read,
                whole.ids.astype(_dtype(codec)),
                whole.lengths.astype(np.uint16),
            )
            split = split.with_shard(
                shard, whole.lengths, whole.unseen, whole.unknown
            )
            manifest = manifest.with_split(name, split)
            write_manifest(folder, manifest)
            bar.update(whole.read)
    if split.unseen:
        print(
            f"Pairs of {name} left out of training and perplexity: "
            f"{split.unseen:,}; the first is {split.first_unseen}",
            flush=True,
        )
    if not split.pairs:
        raise InputError(
            f"No sentence pair of {name} is left ({split.dropped:,} have more "
            f"than {max_tokens} pieces on a side, {split.unseen:,} a target "
            "that cannot be said); check the data set."
        )
    return manifest


class _TooManyUnknown(InputError):
    """A vocabulary that does not know a text."""


def _check_unknown(name, tokens, unknown, max_unknown):
    """Says how much of a split is unknown, and refuses too much."""
    for side, total, (count, examples) in zip(
        ("source", "target"), tokens, unknown
    ):
        if not count:
            continue
        share = count / total
        shown = f", such as {show_characters(examples)}" * bool(examples)
        text = f"{share:.2%} of the {side} pieces of {name} are unknown{shown}"
        if share > max_unknown:
            raise _TooManyUnknown(
                f"{text}: more than --max_unknown={max_unknown}. Use a "
                "vocabulary of this text's characters, or a larger one; or "
                "raise --max_unknown to train all the same."
            )
        print(f"{text}.", flush=True)


def _dtype(codec):
    size = max(codec.source_vocabulary_size, codec.target_vocabulary_size)
    return np.uint16 if size <= _UINT16_VOCABULARY else np.int32


def _write_test_set(folder, evaluation_set):
    content = {
        "sources": evaluation_set.sources,
        "references": evaluation_set.references,
    }
    text = json.dumps(content, ensure_ascii=False).encode("utf-8")
    return _write(folder / TEST_FILE, text)


def _write(path, content):
    """Writes a file whole; returns its SHA-256, hex."""
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
    return hashlib.sha256(content).hexdigest()
