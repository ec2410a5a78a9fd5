"""Makes exports for TensorFlow Serving and compares them with their models.

A model directory comes in, a version's content goes out. This room imports
translators, parsing and
server_runtime.
"""
