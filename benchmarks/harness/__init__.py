"""Benchmark harness: worker processes, alternating timings, tables.

Each system runs a job in its own process. Imports `export` and `trainers`, but
no other module of `benchmarks` and no framework.
"""
