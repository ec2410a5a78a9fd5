"""Prepared data: a corpus as ids, in shards that are read in place.

`writing` makes them, `prepared_corpus` opens them, `codecs` turns text into
ids. Imports batches and corpora.
"""
