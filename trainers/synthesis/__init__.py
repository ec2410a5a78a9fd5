"""Synthetic training text: lines in, pairs made by a model out, filtered.

`job.synthesize` is the entry point. Lines are cut into shards (`shards`), which
`workers` translate (`generate`) on this machine or a Ray cluster; this process
alone writes. This package imports scores.
"""
