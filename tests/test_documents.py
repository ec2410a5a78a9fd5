"""What the documents name is there: files, sections, commands, flags."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FLOORS = ("trainers", "export", "keras_transformer")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/measured/*.md")),
]
# Of the past, where names may be gone.
HISTORY = "CHANGELOG.md"
# Flags of TensorFlow Serving.
OTHERS = {"tensorflow_intra_op_parallelism"}

of_each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


def prose(page):
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def sections(page):
    """The names by which links know a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return [each.replace(" ", "-") for each in words]


def defined_flags():
    found = {"help"}
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            code = path.read_text("utf-8")
            found |= set(re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', code))
    return found


@of_each_page
def test_links_lead_somewhere(page):
    text = prose(page)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for link in links:
        if link.startswith("https:"):
            continue
        name, _, section = link.partition("#")
        there = page.parent / name
        assert there.exists(), link
        assert not section or section in sections(there), link


@of_each_page
def test_files_in_the_text_are_there(page):
    if page.name == HISTORY:
        return
    folders = "|".join([*FLOORS, "benchmarks", "tests", "docs", "bin"])
    names = re.findall(rf"`((?:{folders})/[\w/.\-]*)`", prose(page))
    missing = [name for name in names if not (ROOT / name).exists()]
    assert not missing


@of_each_page
def test_flags_in_the_text_are_there(page):
    if page.name == HISTORY or page.parent.name == "measured":
        return
    named = re.findall(r"`--(\w+)", prose(page))
    known = defined_flags() | OTHERS
    missing = [
        name for name in named if not {name, name.removeprefix("no")} & known
    ]
    assert not missing


@of_each_page
def test_commands_have_their_flags(page):
    known = defined_flags()
    text = page.read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(
        r"python -m ((?:trainers|export)\.\w+)([^\n`|<>;]*)", text
    )
    for module, arguments in commands:
        path = ROOT / f"{module.replace('.', '/')}.py"
        assert path.is_file(), module
        for flag in re.findall(r"(?<![\w-])--(\w+)", arguments):
            assert {flag, flag.removeprefix("no")} & known, (module, flag)
