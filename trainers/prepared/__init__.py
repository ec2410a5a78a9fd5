"""Prepared data: a corpus as ids, in shards that are read in place."""
