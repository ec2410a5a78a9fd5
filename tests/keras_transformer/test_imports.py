"""What keras_transformer may import."""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
ALLOWED = {"keras", "numpy", "keras_transformer", *sys.stdlib_module_names}


def test_files_import_keras_and_numpy_only_and_open_nothing():
    for path in (ROOT / "keras_transformer").rglob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.split(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
            assert not (isinstance(node, ast.Name) and node.id == "open"), path
        assert imported <= ALLOWED, path
