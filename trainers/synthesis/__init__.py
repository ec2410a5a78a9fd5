"""Synthetic training data: lines paired with their filtered translations.

`job.synthesize` is the entry point: `workers` run `generate` on the `shards` of
the lines, and only the main process writes.
"""
