"""A folder of prepared data, opened for training."""

import hashlib
import json
import pathlib

from export.errors import InputError
from trainers.batches.token_pairs import TokenPairs
from trainers.corpora.corpus import EvaluationSet
from trainers.prepared.manifest import read_manifest
from trainers.prepared.shards import damaged, file_crc32, read_shard

VOCABULARY_FILE = "vocabulary.model"
TEST_FILE = "test.json"


class PreparedCorpus:
    """What `trainers.prepare` made of a corpus.

    - `manifest.json`: what it was made from, counts, checksums.
    - `vocabulary.model`: the SentencePiece model.
    - `train-00000.ids.npy`, `train-00000.lengths.npy` and so on: shards.
    - `test.json`: the test split as text, with all references.

    Args:
        folder: where it lies.

    Attributes:
        folder: pathlib.Path.
        manifest: Manifest.
        vocabulary: bytes of the SentencePiece model.

    Raises:
        InputError: nothing is there, or it is unfinished or damaged.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        manifest = read_manifest(self.folder)
        if manifest is None or not manifest.complete:
            state = "no" if manifest is None else "only unfinished"
            raise InputError(
                f"There are {state} prepared data in {self.folder}; run "
                f"python -m trainers.prepare --output_dir={self.folder} with "
                "the same --dataset first."
            )
        self.manifest = manifest
        self.vocabulary = read_vocabulary(self.folder, manifest)

    def pairs(self, split):
        """Returns a split's TokenPairs, or None where there is no such split.

        Raises:
            InputError: a shard is missing or damaged.
        """
        if split not in self.manifest.splits:
            return None
        shards = self.manifest.splits[split].shards
        return TokenPairs([read_shard(self.folder, each) for each in shards])

    def test_set(self):
        """Returns the test split as EvaluationSet, or None without one.

        Raises:
            InputError: its file is missing or damaged.
        """
        digest = self.manifest.test_sha256
        if not digest:
            return None
        content = json.loads(_read(self.folder / TEST_FILE, digest))
        return EvaluationSet(
            tuple(content["sources"]), tuple(map(tuple, content["references"]))
        )

    def check(self):
        """Reads every file and compares its checksum.

        Raises:
            InputError: one is missing or damaged.
        """
        for split in self.manifest.splits.values():
            for shard in split.shards:
                read_shard(self.folder, shard)
                found = file_crc32(shard.ids_path(self.folder))
                if found != shard.ids_crc32:
                    raise damaged(self.folder, shard)
        self.test_set()


def read_vocabulary(folder, manifest):
    """Returns the SentencePiece model of prepared data.

    Args:
        folder: pathlib.Path.
        manifest: Manifest.

    Raises:
        InputError: it is missing, or another one than at the beginning.
    """
    return _read(folder / VOCABULARY_FILE, manifest.vocabulary_sha256)


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
            f"{path} is not what was prepared; remove the folder and prepare "
            "the data again."
        )
    return content
