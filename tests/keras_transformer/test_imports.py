"""What keras_transformer may import."""

import ast
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted((ROOT / "keras_transformer").rglob("*.py"))
ALLOWED = {"keras", "numpy", "keras_transformer", *sys.stdlib_module_names}
FORBIDDEN = [
    *("tensorflow_text", "keras_hub", "keras_nlp", "tensorflow_datasets"),
    *("sentencepiece", "sacrebleu", "trainers", "export"),
]


def test_files_import_keras_and_numpy_only_and_open_nothing():
    for path in FILES:
        imported = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.split(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
            assert not (isinstance(node, ast.Name) and node.id == "open"), path
        assert imported <= ALLOWED, path


def test_import_loads_no_other_package_of_ours_and_no_text_library():
    listing = (
        "import keras_transformer, sys; print('\\n'.join(sorted(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", listing],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    loaded = set(finished.stdout.split())
    assert "keras_transformer.transformer" in loaded
    assert loaded.isdisjoint(FORBIDDEN)
