"""Which floor may know which."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
GROUND = ROOT / "keras_transformer"
MIDDLE = ROOT / "export"

FORBIDDEN = [
    "tensorflow_text",
    "keras_hub",
    "keras_nlp",
    "tensorflow_datasets",
    "sentencepiece",
    "sacrebleu",
    "trainers",
    "export",
]


def imported(path):
    """Top-level names of all modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module.split(".")[0]


def files(folder):
    return [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*.py"))
    ]


def test_import_pulls_in_no_upper_floor_and_no_text_library():
    listing = (
        "import keras_transformer, sys; print('\\n'.join(sorted(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        [sys.executable, "-c", listing],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    loaded = set(finished.stdout.split())
    assert "keras_transformer.transformer" in loaded
    assert loaded.isdisjoint(FORBIDDEN)


@pytest.mark.parametrize("name", files(GROUND))
def test_ground_floor_imports_keras_and_numpy_only(name):
    allowed = {"keras", "numpy", "keras_transformer", *sys.stdlib_module_names}
    assert set(imported(GROUND / name)) <= allowed


def test_ground_and_middle_floor_never_import_upwards():
    for name in files(GROUND):
        assert not {"export", "trainers"} & set(imported(GROUND / name)), name
    for name in files(MIDDLE):
        assert "trainers" not in set(imported(MIDDLE / name)), name


def test_ground_floor_opens_no_file():
    for name in files(GROUND):
        for node in ast.walk(ast.parse((GROUND / name).read_text("utf-8"))):
            assert not (isinstance(node, ast.Name) and node.id == "open"), name
