"""Synthetic training data: lines paired with their filtered translations.

The entry point is `job.synthesize`. `shards` splits lines into shards, which
`workers` translate (`generate`) on this machine or a Ray cluster; only the main
process writes. Imports `trainers.scores`.
"""
