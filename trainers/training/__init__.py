"""Trains with `model.fit` under tf.distribute.

Writes weights, checkpoints and logs into a model directory. Commands call
`launch`; programs with data already open call `fit`. May import data, batches,
scores and pictures.
"""
