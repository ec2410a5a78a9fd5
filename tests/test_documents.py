"""The documents name files, sections, commands and flags that exist."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("trainers", "export", "keras_transformer")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("docs/*.ipynb")),
]
# Flags of TensorFlow Serving.
OTHER_FLAGS = {"tensorflow_intra_op_parallelism"}
FLAGS = {"help"} | OTHER_FLAGS
for package in PACKAGES:
    for path in (ROOT / package).rglob("*.py"):
        code = path.read_text("utf-8")
        FLAGS |= set(re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', code))

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


def markdown(page):
    """Returns a page's text; a notebook's code cells are code blocks."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return text
    blocks = []
    for cell in json.loads(text)["cells"]:
        fence = "```" if cell["cell_type"] == "code" else ""
        blocks.append(f"{fence}\n{''.join(cell['source'])}\n{fence}")
    return "\n".join(blocks)


def prose(page):
    return re.sub(r"```.*?```", "", markdown(page), flags=re.DOTALL)


def sections(page):
    """Returns the names by which links refer to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return [each.replace(" ", "-") for each in words]


def unknown_flags(names):
    return [
        name for name in names if not {name, name.removeprefix("no")} & FLAGS
    ]


@each_page
def test_links_and_files_exist(page):
    text = prose(page)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for link in links:
        if not link.startswith("https:"):
            name, _, section = link.partition("#")
            assert (page.parent / name).exists(), link
            assert not section or section in sections(page.parent / name), link
    # A changelog names what is gone.
    if page.name != "CHANGELOG.md":
        folders = "|".join([*PACKAGES, "benchmarks", "tests", "docs", "bin"])
        files = re.findall(rf"`((?:{folders})/[\w/.\-]*)`", text)
        assert [name for name in files if not (ROOT / name).exists()] == []


@each_page
def test_commands_and_flags_exist(page):
    # What was measured stays as it was printed.
    if page.name == "CHANGELOG.md" or page.parent.name == "measured":
        return
    assert unknown_flags(re.findall(r"`--(\w+)", prose(page))) == []
    text = markdown(page).replace("\\\n", " ")
    commands = re.findall(
        r"python -m ((?:trainers|export)\.\w+)([^\n`|<>;]*)", text
    )
    for module, arguments in commands:
        path = ROOT / module.replace(".", "/")
        command = path if path.is_dir() else path.with_suffix(".py")
        assert (command / "__main__.py").is_file() or command.is_file(), module
        names = re.findall(r"(?<![\w-])--(\w+)", arguments)
        assert unknown_flags(names) == [], module
