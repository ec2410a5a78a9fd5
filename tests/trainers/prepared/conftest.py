import pytest

from trainers.prepared import shards, writing


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of 14 pairs, so that there are several."""
    monkeypatch.setattr(shards, "_CHUNK", 7)
    monkeypatch.setattr(writing, "_SHARD_CHUNKS", 2)
