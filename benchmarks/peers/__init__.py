"""The systems that are timed, one a worker process.

A job of training_step or of decoding comes in, what runs it goes out. A file
imports its own framework and no other, because each process has one.

"""
