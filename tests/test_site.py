"""The documentation site: no dead link, and every public name."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import griffe
import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Methods that Keras calls.
PLUMBING = re.compile(r"build|compute_\w+|get_config")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Returns a dict of the built pages to their HTML."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text("utf-8") for path in folder.rglob("*.html")}
    # Its links are from the top of a server.
    del pages[folder / "404.html"]
    assert folder / "index.html" in pages
    return pages


@functools.cache
def anchors(html):
    return set(re.findall(r'\bid="([^"]+)"', html))


@pytest.mark.parametrize(
    "package", ["keras_transformer", "export.keras_hub_task"]
)
def test_public_names_and_methods_are_documented(pages, package):
    documented = set().union(*map(anchors, pages.values()))
    module = griffe.load(package, search_paths=[ROOT])
    assert module.exports
    for name in module.exports:
        assert module[name].has_docstring, name
        assert f"{package}.{name}" in documented
        for method in module[name].members.values():
            if method.is_function and not (
                method.name.startswith("_") or PLUMBING.fullmatch(method.name)
            ):
                assert f"{package}.{name}.{method.name}" in documented


def test_links_lead_somewhere(pages):
    for page, html in pages.items():
        for link in re.findall(r'\b(?:href|src|srcset)="([^"]+)"', html):
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = page
            if address.path:
                target = page.parent / urllib.parse.unquote(address.path)
                assert target.is_file(), f"{page.name}: {link}"
            if address.fragment and target in pages:
                assert address.fragment in anchors(pages[target]), link


def test_pages_load_nothing_from_other_servers(pages):
    for page, html in pages.items():
        loaded = re.findall(r"<(?:script|link|img|source|iframe)\b[^>]*>", html)
        assert loaded
        others = [tag for tag in loaded if re.search(r'="(https?:)?//', tag)]
        assert others == [], page.name
