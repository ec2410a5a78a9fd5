import builtins
import functools
import getpass
import http.server
import os
import threading

import pytest

from trainers.data import package_index
from trainers.data.package_index import (
    FetchError,
    fetch_source_distribution,
    read_pip_options,
)


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
    (page.parent / "nmt-0.0.6.tar.gz").write_bytes(b"from the index")
    page.write_text('<a href="nmt-0.0.6.tar.gz">nmt-0.0.6.tar.gz</a>')
    return (tmp_path / "simple").as_uri()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder to someone with the password "secret"."""

    def do_GET(self):
        # "someone:secret" in base 64.
        if self.headers["Authorization"] == "Basic c29tZW9uZTpzZWNyZXQ=":
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(tmp_path, simple_index, monkeypatch):
    """Host and port of the simple index, behind a password."""
    monkeypatch.setenv("no_proxy", "*")
    handler = functools.partial(_Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as there:
        thread = threading.Thread(target=there.serve_forever)
        thread.start()
        yield f"127.0.0.1:{there.server_port}"
        there.shutdown()
        thread.join()


def _set_options(monkeypatch, **options):
    named = {name.replace("_", "-"): value for name, value in options.items()}
    monkeypatch.setattr(
        package_index, "pip_options", lambda: {"no-index": "true"} | named
    )


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
    assert package_index._sources(read_pip_options()) == [
        ("find_links", "/from/variable"),
        ("index_urls", "https://file.example/simple"),
        ("index_urls", "https://b.example/simple"),
        ("index_urls", "https://c.example/simple"),
    ]
    path.write_text("")
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert package_index._sources(read_pip_options()) == [
        ("index_urls", "https://pypi.org/simple")
    ]


def test_a_folder_of_links_is_used(monkeypatch, links):
    for name, content in (
        ("nmt-0.0.6.tar.gz", b"the archive"),
        ("nmt-0.0.7.tar.gz", b"too new"),
        ("other-0.0.6.tar.gz", b"another package"),
        ("nmt-0.0.6-py3-none-any.whl", b"a wheel"),
    ):
        (links / name).write_bytes(content)
    _set_options(monkeypatch, find_links=str(links))
    assert fetch_source_distribution("nmt", "0.0.6", 11) == b"the archive"
    assert (links / "nmt-0.0.6.tar.gz").exists()


@pytest.mark.parametrize("content", [None, b"much too large to be it" * 9])
def test_the_next_source_is_asked_if_one_fails(
    monkeypatch, links, simple_index, content
):
    if content:
        (links / "nmt-0.0.6.tar.gz").write_bytes(content)
    _set_options(
        monkeypatch,
        no_index="",
        find_links=f"{links} /no/such/folder",
        index_url="file:///no/such/index",
        extra_index_url=simple_index,
    )
    assert fetch_source_distribution("nmt", "0.0.6", 14) == b"from the index"


def test_every_failure_is_named_and_no_password(monkeypatch, links):
    (links / "nmt-0.0.6.tar.gz").write_bytes(b"x" * 12)
    # Port 9 of this machine: refused at once, and nothing leaves it.
    _set_options(
        monkeypatch,
        no_index="",
        find_links=str(links),
        index_url="http://someone:secret@127.0.0.1:9/simple",
    )
    with pytest.raises(FetchError) as caught:
        fetch_source_distribution("nmt", "0.0.6", 11)
    message = str(caught.value)
    assert f"{links}: the file is larger than 11 bytes" in message
    assert "127.0.0.1:9" in message
    assert "secret" not in message and "\n" not in message
    _set_options(monkeypatch)
    with pytest.raises(FetchError):
        fetch_source_distribution("nmt", "0.0.6", 11)


def test_an_index_behind_a_password(monkeypatch, server):
    url = f"http://someone:secret@{server}/simple"
    _set_options(monkeypatch, no_index="", index_url=url)
    assert fetch_source_distribution("nmt", "0.0.6", 14) == b"from the index"
    with pytest.raises(FetchError, match="larger than 13 bytes"):
        fetch_source_distribution("nmt", "0.0.6", 13)


def test_nobody_is_asked_for_a_password(monkeypatch, server):
    _set_options(monkeypatch, no_index="", index_url=f"http://{server}/simple")
    asked = []
    monkeypatch.setattr(builtins, "input", asked.append)
    monkeypatch.setattr(getpass, "getpass", asked.append)
    with pytest.raises(FetchError):
        fetch_source_distribution("nmt", "0.0.6", 14)
    assert asked == []
