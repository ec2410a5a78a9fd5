"""New training text: lines in, pairs made by a model out, filtered.

`job` is the way in. Lines are cut into shards; a worker makes a shard of pairs
of a shard of lines (`work`), on this machine (`local_workers`) or on a Ray
cluster (`ray_workers`), and this process alone writes. This room imports
scores.
"""
