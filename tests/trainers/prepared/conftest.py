import pytest

from trainers.prepared import preparing, tokenising


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of 14 pairs, so that there are several."""
    monkeypatch.setattr(tokenising, "_CHUNK", 7)
    monkeypatch.setattr(preparing, "_SHARD_CHUNKS", 2)
