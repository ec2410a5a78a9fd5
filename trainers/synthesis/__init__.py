"""Synthetic training text: pairs of lines and their translations, filtered.

`job.synthesize` is the entry point. Lines are cut into shards (`shards`), which
`workers` translate (`generate`) on this machine or a Ray cluster; only the main
process writes. This package imports `scores`.
"""
