"""Larger models against Hugging Face's own code, run now.

They need a Python with transformers and torch: this one, where
requirements-bench.txt is installed, or that of MARIAN_PYTHON.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from export.pretrained.hugging_face import read_hugging_face
from export.tokenizers.table_tokenizers import load_tokenizer
from tests.export.pretrained import test_marian_import as recorded_tests

PYTHON = os.environ.get("MARIAN_PYTHON", sys.executable)
SCRIPT = pathlib.Path(__file__).with_name("make_marian.py")


def has_transformers():
    return not subprocess.run(
        [PYTHON, "-c", "import torch, transformers"], capture_output=True
    ).returncode


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wide", "deep", "uneven"])
def test_larger_models_answer_alike(name, tmp_path):
    if not has_transformers():
        pytest.skip("transformers and torch are not installed")
    folder = tmp_path / name
    subprocess.run(
        [PYTHON, str(SCRIPT), str(folder), name],
        check=True,
        capture_output=True,
    )
    found = read_hugging_face(folder)
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    live = folder, found, load_tokenizer(found.vocabulary), answers
    recorded_tests.test_ids_are_those_of_their_tokenizer(live)
    recorded_tests.test_logits_and_scores_are_theirs(live)
    for beams in (1, 4, 6):
        recorded_tests.compare_searches(live, beams, least=10)
