"""Writes, describes, runs and compares exports for TensorFlow Serving.

`session` loads TensorFlow without Keras, as in a server process. How to add a
signature: docs/architecture.md.
"""
