"""Writes, describes, runs and compares exports for TensorFlow Serving.

It imports `translators` and `parsing`. `session` loads TensorFlow without
Keras, as a server process does.

A new signature is a method of `ServedTranslator` or `ServedParser`, an item of
its `signatures()`, and a Signature in `comparison`; a new kind of input needs a
value in `export_directory.select_inputs`.
"""
