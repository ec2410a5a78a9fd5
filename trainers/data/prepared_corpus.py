"""Opens a folder of prepared data for training."""

import functools
import hashlib
import json
import pathlib

from export.common.command import command_line
from export.common.errors import InputError
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet
from trainers.data.manifest import read_manifest
from trainers.data.shards import damaged_shard_error, file_crc32, read_shard

VOCABULARY_FILE = "vocabulary.model"
SYMBOLS_FILE = "symbols.json"
TEST_FILE = "test.json"


class PreparedCorpus:
    """Prepared data of a corpus, written by `trainers.prepare`.

    - `manifest.json`: source, counts, checksums.
    - `vocabulary.model`: the SentencePiece model.
    - `symbols.json`: for trees, the symbol vocabulary.
    - `train-00000.ids.npy`, `train-00000.lengths.npy` and so on: shards.
    - `test.json`: the test split as text, with all references.

    The attribute `vocabulary` has the bytes of the SentencePiece model. Raises
    InputError if data are missing, incomplete or damaged.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        manifest = read_manifest(self.folder)
        if manifest is None or not manifest.complete:
            state = "no" if manifest is None else "only unfinished"
            prepare = command_line(
                "trainers.prepare", f"--output_dir={self.folder}"
            )
            raise InputError(
                f"There are {state} prepared data in {self.folder}; run "
                f"{prepare} with the same --dataset first."
            )
        self.manifest = manifest
        self._files = read_codec_files(self.folder, manifest)
        self.vocabulary = self._files[VOCABULARY_FILE]

    @functools.cached_property
    def symbols(self):
        """SymbolVocabulary of the targets; None for text."""
        return _symbols(self._files)

    def pairs(self, split):
        """Returns the TokenPairs of a split, or None if it does not exist."""
        if split not in self.manifest.splits:
            return None
        shards = self.manifest.splits[split].shards
        return TokenPairs([read_shard(self.folder, each) for each in shards])

    def test_set(self):
        """Returns the test split as EvaluationSet, or None if there is none."""
        digest = self.manifest.test_sha256
        if not digest:
            return None
        content = json.loads(_read(self.folder / TEST_FILE, digest))
        return EvaluationSet(
            tuple(content["sources"]), tuple(map(tuple, content["references"]))
        )

    def check(self):
        """Raises InputError unless all files match their checksums."""
        for split in self.manifest.splits.values():
            for shard in split.shards:
                read_shard(self.folder, shard)
                checksum = file_crc32(shard.ids_path(self.folder))
                if checksum != shard.ids_crc32:
                    raise damaged_shard_error(self.folder, shard)
        self.test_set()


def read_codec_files(folder, manifest):
    """Returns a codec's verified files, as a dict of name to bytes."""
    digests = {VOCABULARY_FILE: manifest.vocabulary_sha256}
    if manifest.symbols_sha256:
        digests[SYMBOLS_FILE] = manifest.symbols_sha256
    return {
        name: _read(folder / name, digest) for name, digest in digests.items()
    }


def validate_symbols(folder, manifest, symbols):
    """Raises InputError unless data and model have the same symbols."""
    if symbols is None:
        return
    difference = symbols.describe_difference(
        _symbols(read_codec_files(folder, manifest))
    )
    if difference:
        raise InputError(
            f"The data in {folder} were prepared with other labels and tags "
            f"than the model's: only one of them has {difference}; prepare "
            "them in another folder, with --symbols=MODEL_DIR/symbols.json."
        )


def _symbols(files):
    if SYMBOLS_FILE not in files:
        return None
    # nltk takes seconds to import.
    from export.parsing.linearization import SymbolVocabulary

    return SymbolVocabulary.from_json(files[SYMBOLS_FILE].decode())


def _read(path, sha256):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}; remove the folder and "
            "prepare the data again."
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(
            f"{path} is not the file that was prepared; remove the folder and "
            "prepare the data again."
        )
    return content
