"""The recorded directories of tests/data/marian, unpacked and imported."""

import json
import pathlib
import tarfile

import pytest

from export.pretrained.hugging_face_reader import read_hugging_face
from export.tokenizers.pretrained_tokenizers import load_tokenizer

DATA = pathlib.Path(__file__).parents[2] / "data" / "marian"


@pytest.fixture(scope="session")
def marian_folder(tmp_path_factory):
    """The folder of all three directories; no test may change it."""
    folder = tmp_path_factory.mktemp("marian")
    with tarfile.open(DATA / "models.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session", params=["shared", "separate", "untied"])
def recorded(request, marian_folder):
    """A folder, its PretrainedModel, tokenizer and recorded answers."""
    folder = marian_folder / request.param
    pretrained = read_hugging_face(folder)
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    return folder, pretrained, load_tokenizer(pretrained.vocabulary), answers
