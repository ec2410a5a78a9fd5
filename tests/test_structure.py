"""The layering of the packages, read from their imports and sizes."""

import ast
import functools
import pathlib
import re
import subprocess

import pytest

from tests.annotations import find_unannotated

ROOT = pathlib.Path(__file__).parents[1]
# Each imports only itself and those after it.
PACKAGES = ("benchmarks", "trainers", "export", "keras_transformer")
MAX_LINES, MAX_FILES = 400, 20
SOURCES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py")
)


def relative(path):
    return path.relative_to(ROOT).as_posix()


def subpackage(path):
    """Returns "export/serving" for its modules; else the module's own name."""
    parts = path.relative_to(ROOT).parts
    # A command in a folder is no part of the library beside it.
    if len(parts) > 2 and path.stem != "__main__":
        return "/".join(parts[:2])
    return relative(path)


@functools.cache
def imported_files(path):
    """Returns the project's files that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: relative import"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {_file(name) for name in names} - {None, path}


def _file(module):
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def subpackage_imports():
    """Returns a dict of subpackage or module to those that it imports."""
    imports = {}
    for path in SOURCES:
        others = {subpackage(other) for other in imported_files(path)}
        name = subpackage(path)
        imports.setdefault(name, set()).update(others - {name})
    return imports


def test_packages_import_only_lower_ones():
    for path in SOURCES:
        level = PACKAGES.index(relative(path).split("/")[0])
        for other in imported_files(path):
            package = relative(other).split("/")[0]
            assert package in PACKAGES[level:], (
                f"{relative(path)} imports {relative(other)} of a package "
                "above it; move what both need down."
            )


def test_subpackages_import_in_no_circle():
    # Everybody imports a package's public names, which come from everywhere.
    imports = {
        name: {each for each in others if not _is_package(each)}
        for name, others in subpackage_imports().items()
        if not _is_package(name)
    }

    def reachable(name):
        seen, waiting = set(), [name]
        while waiting:
            for other in imports.get(waiting.pop(), ()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    for name, others in imports.items():
        for other in others:
            assert name not in reachable(other), f"{name} <-> {other}"


def _is_package(name):
    return re.fullmatch(r"\w+/__init__\.py", name)


def test_the_architecture_page_has_the_imports():
    """Its tables: | `package/subpackage/` | content | imports |."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w/]+)/` \|[^|]*\|([^|]*)\|$", page, re.M)
    drawn = {name: set(re.findall(r"`(\w+)`", names)) for name, names in rows}
    actual = {}
    for name, others in subpackage_imports().items():
        if not name.endswith(".py") and not name.startswith("benchmarks"):
            package = name.split("/")[0]
            actual[name] = {
                other.split("/")[1].removesuffix(".py")
                for other in others
                if other.startswith(f"{package}/")
            } - {"__init__"}
    assert drawn == actual


def test_sizes_of_files_and_folders():
    for path in SOURCES:
        lines = len(path.read_text("utf-8").splitlines())
        assert lines <= MAX_LINES, f"{relative(path)} has {lines} lines"
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    folders = [name.rpartition("/")[0] for name in listed.stdout.splitlines()]
    for folder in set(folders):
        assert folders.count(folder) <= MAX_FILES, folder


def test_folders_say_what_they_hold():
    for folder in {path.parent for path in SOURCES}:
        init = folder / "__init__.py"
        assert init.exists(), relative(folder)
        assert ast.get_docstring(ast.parse(init.read_text("utf-8"))), init


# Of KerasHub's tokenizers, sacreBLEU's statistics and uvicorn's protocol.
PRIVATE = {
    *("_add_special_token", "_check_vocabulary", "_tokenize_tf"),
    *("_empty_decoder_text", "_extract_corpus_statistics"),
    *("_compute_score_from_stats", "_ci", "_unset_keepalive_if_required"),
}


def test_no_private_attribute_of_keras_or_tensorflow_is_used():
    """Every `._name` is one that the packages define themselves."""
    used, defined = (
        set(),
        PRIVATE | {"_replace", "_asdict", "_fields", "_make", "_exit"},
    )
    for package in PACKAGES[1:]:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute):
                    is_private = re.match("_[a-z]", node.attr)
                    if is_private and isinstance(node.ctx, ast.Store):
                        defined.add(node.attr)
                    elif is_private:
                        used.add(node.attr)
                elif isinstance(
                    node,
                    (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
                ):
                    defined.add(node.name)
                elif isinstance(node, ast.Name):
                    defined.add(node.id)
    assert sorted(used - defined) == []


def test_public_functions_have_types():
    found = [
        f"{relative(path)}:{each}"
        for package in PACKAGES[1:]
        for path in (ROOT / package).rglob("*.py")
        for each in find_unannotated(path)
    ]
    assert found == []
