import os

import pytest

from trainers.data import package_index
from trainers.data.package_index import FetchError, fetch_source_distribution

NAME = "nmt-0.0.6.tar.gz"


@pytest.fixture
def links(tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    return folder


@pytest.fixture
def simple_index(tmp_path):
    """URL of a simple index on disk; its one package is nmt 0.0.6."""
    page = tmp_path / "simple" / "nmt" / "index.html"
    page.parent.mkdir(parents=True)
    (page.parent / NAME).write_bytes(b"from the index")
    page.write_text(f'<a href="{NAME}">{NAME}</a>')
    return (tmp_path / "simple").as_uri()


def _fetch(monkeypatch, size, **options):
    options = {name.replace("_", "-"): each for name, each in options.items()}
    monkeypatch.setattr(package_index, "read_pip_options", lambda: options)
    return fetch_source_distribution("nmt", "0.0.6", size)


def test_pips_files_and_variables_are_read(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    path = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    for name in ("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    path.write_text(
        "[global]\nindex-url = https://file.example/simple\n"
        "extra-index-url =\n    https://b.example/simple\n"
        "    https://c.example/simple\n[install]\nfind-links = /a\n"
    )
    monkeypatch.setenv("PIP_FIND_LINKS", "/from/variable")
    options = package_index.read_pip_options()
    assert package_index._list_sources(options) == [
        ("find_links", "/from/variable"),
        ("index_urls", "https://file.example/simple"),
        ("index_urls", "https://b.example/simple"),
        ("index_urls", "https://c.example/simple"),
    ]
    assert package_index._list_sources({}) == [
        ("index_urls", "https://pypi.org/simple")
    ]
    assert package_index._list_sources({"no-index": "true"}) == []


def test_a_folder_of_links_is_used(monkeypatch, links):
    for name, content in (
        (NAME, b"the archive"),
        ("nmt-0.0.7.tar.gz", b"too new"),
        ("other-0.0.6.tar.gz", b"another package"),
        ("nmt-0.0.6-py3-none-any.whl", b"a wheel"),
    ):
        (links / name).write_bytes(content)
    options = {"no_index": "true", "find_links": str(links)}
    assert _fetch(monkeypatch, 11, **options) == b"the archive"
    assert (links / NAME).exists()


@pytest.mark.parametrize("content", [None, b"much too large to be it" * 9])
def test_the_next_source_is_asked_if_one_fails(
    monkeypatch, links, simple_index, content
):
    if content:
        (links / NAME).write_bytes(content)
    found = _fetch(
        monkeypatch,
        14,
        find_links=f"{links} /no/such/folder",
        index_url="file:///no/such/index",
        extra_index_url=simple_index,
    )
    assert found == b"from the index"


def test_every_failure_is_named_and_no_password(monkeypatch, links):
    (links / NAME).write_bytes(b"x" * 12)
    # Port 9 of this machine: refused at once, and nothing leaves it.
    url = "http://someone:secret@127.0.0.1:9/simple"
    with pytest.raises(FetchError) as caught:
        _fetch(monkeypatch, 11, find_links=str(links), index_url=url)
    message = str(caught.value)
    assert str(links) in message and "127.0.0.1:9" in message
    assert "secret" not in message and "\n" not in message
    with pytest.raises(FetchError):
        _fetch(monkeypatch, 11, no_index="true")
