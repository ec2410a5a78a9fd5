"""The systems to time, which run in worker processes.

Each module makes peers from a training_job or a decoding_job. It may import
these two, `harness` and its own framework.
"""
