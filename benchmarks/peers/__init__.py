"""The systems that are timed, each in a worker process.

A job of training_step or of decoding comes in, what runs it goes out. A file
imports those rooms, harness and its own framework, and no other framework.
"""
