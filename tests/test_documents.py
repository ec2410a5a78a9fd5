"""The documents name files, sections, commands and flags that exist."""

import collections
import json
import pathlib
import re
import shlex

import pytest

from tests import processes

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

# Of the packages and of benchmarks/, with what follows.
COMMAND = re.compile(
    r"python\d? (?:-m )?((?:trainers|export)\.[\w.]+|benchmarks/\w+\.py)"
    r"""(?=\s)((?:"[^"\n]*"|'[^'\n]*'|[^"'`|<>;&\[])*)"""
)

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
def test_flags_exist(page):
    # What was measured stays as it was printed.
    if page.name != "CHANGELOG.md" and page.parent.name != "measured":
        assert unknown_flags(re.findall(r"`--(\w+)", prose(page))) == []


def documented_commands():
    """Returns {module: [(page, list of arguments)]} of all pages.

    Without what a page of measurements ran at a commit that it names.
    """
    commands = collections.defaultdict(list)
    for page in PAGES:
        paragraphs = re.split(r"\n\s*\n", markdown(page))
        for paragraph in paragraphs:
            if page.name == "CHANGELOG.md" or (
                page.parent.name == "measured"
                and re.search(r"commit\s+[0-9a-f]{7}", paragraph)
            ):
                continue
            text = paragraph.replace("\\\n", " ")
            for module, arguments in COMMAND.findall(text):
                # A command in prose may go over lines, one in a block not.
                if "```" in text or page.suffix == ".ipynb":
                    arguments = arguments.partition("\n")[0]
                words = shlex.split(arguments, comments=True)
                if any(re.match("--(?!help)[a-z]", word) for word in words):
                    module = module.removesuffix(".py").replace("/", ".")
                    commands[module].append((page.name, words))
    return commands


COMMANDS = documented_commands()


@pytest.mark.parametrize("module", sorted(COMMANDS))
def test_commands_accept_the_flags(module):
    folder = ROOT / module.replace(".", "/")
    done = processes.run(
        {"module": "tests.parse_flags"},
        [f"{module}.__main__" if folder.is_dir() else module],
        ROOT,
        source=json.dumps([words for _, words in COMMANDS[module]]).encode(),
    )
    assert done.code == 0, done.err
    errors = json.loads(done.out)
    assert [
        (*command, error)
        for command, error in zip(COMMANDS[module], errors, strict=True)
        if error is not None
    ] == []
