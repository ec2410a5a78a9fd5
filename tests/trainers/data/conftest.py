"""Text files, a small archive of Tatoeba, and small shards."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import pytest

from trainers.data import preparation, tatoeba, tokenization


def _write_text(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def write_text():
    """Writes lines to a path, compressed if the path ends in .gz."""
    return _write_text


def _make_archive(text):
    """Makes a source distribution like nmt's around the text of fra.txt."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("_about.txt", "about")
        archive.writestr("fra.txt", text)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in (
            ("nmt-0.0.6/setup.py", b"raise SystemExit('was run')"),
            ("nmt-0.0.6/data/fra-eng.zip", packed.getvalue()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def index(monkeypatch, tmp_path):
    """A package index that holds what `serve` is given; no network."""
    return _Index(monkeypatch, tmp_path / "cache")


class _Index:
    def __init__(self, monkeypatch, cache):
        self.fetched = 0
        self.content = b""
        self.cache = cache
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", str(cache))
        monkeypatch.setattr(tatoeba, "fetch_archive", self._fetch)

    def serve(self, text):
        """Serves an archive of this text as the one that is expected."""
        self.content = _make_archive(text)
        digest = hashlib.sha256(self.content).hexdigest()
        self._monkeypatch.setattr(tatoeba, "SHA256", digest)
        self._monkeypatch.setattr(tatoeba, "SIZE", len(self.content))

    def _fetch(self):
        self.fetched += 1
        return self.content


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of 14 pairs, so that there are several."""
    monkeypatch.setattr(tokenization, "_CHUNK_PAIRS", 7)
    monkeypatch.setattr(preparation, "_CHUNKS_PER_SHARD", 2)
