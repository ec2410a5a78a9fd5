"""The rules of the house, read from the source.

Floors, rooms and sizes; docs/architecture.md says what belongs where.
"""

import ast
import functools
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# From the top: an import leads to a floor's own modules or to those after it.
FLOORS = ("benchmarks", "trainers", "export", "keras_transformer")
MOST_LINES, MOST_FILES = 400, 20
SOURCES = sorted(
    path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")
)


def named(path):
    return path.relative_to(ROOT).as_posix()


def room_of(path):
    """A file of a room stands for the room; one beside rooms for itself."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else named(path)


@functools.cache
def imported(path):
    """The files of ours that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}: write the import in full."
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(filter(None, map(_file, names)))
            found.add(_file(node.module))
        elif isinstance(node, ast.Import):
            found.update(_file(alias.name) for alias in node.names)
    return found - {None, path}


def _file(module):
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def test_an_arrow_never_runs_up():
    for path in SOURCES:
        floor = FLOORS.index(named(path).split("/")[0])
        for other in imported(path):
            there = named(other).split("/")[0]
            assert there in FLOORS[floor:], (
                f"{named(path)} imports {named(other)}, of a floor above it; "
                "move what both need down."
            )


def test_rooms_make_no_circle():
    arrows = {}
    for path in SOURCES:
        rooms = {room_of(other) for other in imported(path)}
        arrows.setdefault(room_of(path), set()).update(rooms)

    def reached(room):
        seen, waiting = set(), [room]
        while waiting:
            for other in arrows.get(waiting.pop(), ()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    for room, others in arrows.items():
        for other in others - {room}:
            # The doors of floors are everybody's.
            if other.endswith("__init__.py") and other.count("/") == 1:
                continue
            assert room not in reached(other), (
                f"{room} imports {other}, which leads back to it; move what "
                "both need into a room that both import."
            )


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_file_is_one_idea(path):
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= MOST_LINES, (
        f"{named(path)} has {lines} lines, more than {MOST_LINES}; which two "
        "ideas does it hold?"
    )


def test_a_folder_can_be_looked_over():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    folders = {}
    for name in listed.stdout.splitlines():
        folder = name.rpartition("/")[0]
        folders.setdefault(folder, []).append(name)
    for folder, files in folders.items():
        assert len(files) <= MOST_FILES, (
            f"{folder or 'the top level'} has {len(files)} files, more than "
            f"{MOST_FILES}; which of them make a room?"
        )


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in SOURCES}), ids=named
)
def test_a_room_has_a_door(folder):
    door = folder / "__init__.py"
    assert door.exists(), f"{named(folder)} needs an __init__.py that says"
    said = ast.get_docstring(ast.parse(door.read_text("utf-8"))) or ""
    assert said, f"{named(door)} must say what lives in {named(folder)}."
    if len(folder.relative_to(ROOT).parts) > 1:
        assert "import" in said, (
            f"{named(door)} must say what {named(folder)} may import."
        )
