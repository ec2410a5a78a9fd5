"""The systems to time, each in a worker process.

A training_job or a decoding_job comes in, a peer that runs it goes out. Each
module may import these two, harness and its own framework.
"""
