"""Prepared data: a corpus as ids, in shards that are read in place.

`writing` makes them, `prepared_corpus` opens them, `codecs` has the ways from
text to ids. This room imports batches
and corpora.
"""
