import os
import pathlib

import pytest

from export.errors import InputError
from trainers.corpora import tatoeba
from trainers.corpora.package_index import FetchError
from trainers.corpora.tatoeba import cache_folder, read_tatoeba_text

TEXT = "Go.\tVa !\tby someone\n"


def _names(folder):
    return [path.name for path in folder.iterdir()]


def test_the_text_is_fetched_once_and_then_read_from_the_cache(index, capsys):
    index.serve(TEXT)
    assert read_tatoeba_text() == TEXT
    assert "Fetching" in capsys.readouterr().err
    assert _names(index.cache) == ["nmt-0.0.6.tar.gz"]
    assert read_tatoeba_text() == TEXT
    assert index.fetched == 1
    assert capsys.readouterr().err == ""


def test_a_file_put_into_the_cache_folder_by_hand_is_used(index):
    index.serve(TEXT)
    index.cache.mkdir()
    (index.cache / "nmt-0.0.6.tar.gz").write_bytes(index.content)
    assert read_tatoeba_text() == TEXT
    assert index.fetched == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_cached_file_is_fetched_anew(index, capsys, damage):
    index.serve(TEXT)
    read_tatoeba_text()
    path = index.cache / "nmt-0.0.6.tar.gz"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-1]
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
    else:
        data.clear()
    path.write_bytes(data)
    capsys.readouterr()
    assert read_tatoeba_text() == TEXT
    assert index.fetched == 2
    damaged = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "is damaged" in line
    ]
    assert len(damaged) == 1
    assert str(path) in damaged[0]
    assert path.read_bytes() == index.content


@pytest.mark.parametrize("change", ["hash", "size"])
def test_a_wrong_download_is_refused_and_leaves_nothing(
    index, archive_of, change
):
    index.serve(TEXT)
    index.content = {
        "hash": index.content[:-1] + bytes([index.content[-1] ^ 1]),
        "size": archive_of("another, longer text"),
    }[change]
    with pytest.raises(InputError, match="not the expected file"):
        read_tatoeba_text()
    assert not index.cache.exists()


def test_a_wrong_download_leaves_a_damaged_file_as_it_was(index):
    index.serve(TEXT)
    index.content = b"wrong"
    index.cache.mkdir()
    path = index.cache / "nmt-0.0.6.tar.gz"
    path.write_bytes(b"damaged")
    with pytest.raises(InputError):
        read_tatoeba_text()
    assert _names(index.cache) == [path.name]
    assert path.read_bytes() == b"damaged"


def test_without_network_the_error_says_what_to_do(index, monkeypatch):
    def fail(*_):
        raise FetchError("index: no route")

    monkeypatch.setattr(tatoeba, "fetch_source_distribution", fail)
    with pytest.raises(InputError) as caught:
        read_tatoeba_text()
    message = str(caught.value)
    for part in (
        "no route",
        "KERAS_TRANSFORMER_CACHE",
        "nmt-0.0.6.tar.gz",
        "text:PREFIX",
    ):
        assert part in message
    assert "\n" not in message


def test_a_write_that_fails_leaves_nothing_half_done(index, monkeypatch):
    index.serve(TEXT)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        read_tatoeba_text()
    assert _names(index.cache) == []


def test_a_cache_folder_that_is_a_file(index):
    index.serve(TEXT)
    index.cache.write_text("a file")
    with pytest.raises(InputError, match="KERAS_TRANSFORMER_CACHE"):
        read_tatoeba_text()


@pytest.mark.parametrize(
    ("own", "general", "expected"),
    [
        ("/own", "/general", "/own"),
        ("~/own", "", "/home/someone/own"),
        ("", "/general", "/general/keras_transformer"),
        ("", "", "/home/someone/.cache/keras_transformer"),
        ("", "relative", "/home/someone/.cache/keras_transformer"),
    ],
)
def test_where_the_cache_is(monkeypatch, own, general, expected):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", own)
    monkeypatch.setenv("XDG_CACHE_HOME", general)
    assert cache_folder() == pathlib.Path(expected)
    if not own and not general:
        monkeypatch.delenv("KERAS_TRANSFORMER_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == pathlib.Path(expected)


def test_only_the_text_leaves_the_archive(index, tmp_path, monkeypatch):
    index.serve(TEXT)
    monkeypatch.chdir(tmp_path)
    read_tatoeba_text()
    there = sorted(p.name for p in tmp_path.rglob("*") if p.is_file())
    assert there == ["nmt-0.0.6.tar.gz"]
