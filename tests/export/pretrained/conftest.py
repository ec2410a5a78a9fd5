"""The recorded directories of tests/data/marian, unpacked and imported."""

import json
import pathlib
import shutil
import tarfile
import typing

import numpy as np
import pytest

from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.pretrained_model import PretrainedModel
from export.tokenizers.pretrained_tokenizers import (
    TokenizerPair,
    load_tokenizer,
)

DATA = pathlib.Path(__file__).parents[2] / "data" / "marian"


class Recorded(typing.NamedTuple):
    """A directory, its import, and what Hugging Face's code answered."""

    folder: pathlib.Path
    pretrained: PretrainedModel
    tokenizer: TokenizerPair
    answers: list

    def table(self, side):
        """Returns the dict of a side's file, piece to id."""
        name = "vocab.json"
        if side == "target" and (self.folder / "target_vocab.json").exists():
            name = "target_vocab.json"
        return json.loads((self.folder / name).read_text("utf-8"))

    def their_ids(self, side):
        """Returns int [V]: their id for each of ours, -1 for our padding.

        Ours are padding, unknown, begin (their <pad>) and end, then the others
        in their order.
        """
        table = self.table(side)
        special = [table["<unk>"], table["<pad>"], table["</s>"]]
        others = [row for row in sorted(table.values()) if row not in special]
        return np.array([-1, *special, *others])


@pytest.fixture(scope="session")
def marian_folder(tmp_path_factory):
    """The folder of all three directories; no test may change it."""
    folder = tmp_path_factory.mktemp("marian")
    with tarfile.open(DATA / "models.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session", params=["shared", "separate", "untied"])
def recorded(request, marian_folder):
    """The Recorded of each directory."""
    folder = marian_folder / request.param
    pretrained = read_hugging_face(folder)
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    tokenizer = load_tokenizer(pretrained.vocabulary)
    return Recorded(folder, pretrained, tokenizer, answers)


@pytest.fixture
def folder(request, marian_folder, tmp_path):
    """A copy of a directory, "shared" by default, to be changed."""
    copy = tmp_path / "hf"
    shutil.copytree(marian_folder / getattr(request, "param", "shared"), copy)
    (copy / "pytorch_model.bin").unlink(missing_ok=True)
    return copy
