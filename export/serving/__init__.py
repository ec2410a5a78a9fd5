"""Exports for TensorFlow Serving: writes, describes, runs and compares them.

It imports `translators` and `parsing`. `session` alone is what a server process
has: TensorFlow without Keras.

A new signature is a method of `ServedTranslator` or `ServedParser`, with its
name in `signatures()`; how its answers are read and compared is its entry in
`comparison`; a new kind of input needs a value in `warm_up.select_inputs`.
"""
