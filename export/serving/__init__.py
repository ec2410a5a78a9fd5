"""Writes, describes, runs and compares exports for TensorFlow Serving.

`served_translator` and `served_parser` are the graphs, `export_directory` has
the files of an export, and `comparison` compares outputs. `session` loads
TensorFlow without Keras, as in a server process. How to add a signature:
docs/architecture.md.
"""
