"""The recorded directories of tests/data/marian, unpacked and imported."""

import json
import pathlib
import tarfile

import pytest

from export.pretrained.hugging_face_reader import read_hugging_face
from export.tokenizers.pretrained_tokenizers import load_tokenizer

DATA = pathlib.Path(__file__).parents[2] / "data" / "marian"
NAMES = ("shared", "separate", "untied")


@pytest.fixture(scope="session")
def marian_folder(tmp_path_factory):
    """The folder of all three directories; no test may change it."""
    folder = tmp_path_factory.mktemp("marian")
    with tarfile.open(DATA / "models.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session", params=NAMES)
def recorded(request, marian_folder):
    """Of each: its folder, what was read of it, tokenizer, answers."""
    folder = marian_folder / request.param
    found = read_hugging_face(folder)
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    return folder, found, load_tokenizer(found.vocabulary), answers
