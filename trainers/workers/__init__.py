"""Runs functions in threads of this process or on a Ray cluster.

`ordered` has results in the order of the items, `ray_cluster` the connection.
"""
