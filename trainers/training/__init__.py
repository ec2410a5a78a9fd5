"""Trains through `model.fit` under tf.distribute.

From prepared data and options to weights, checkpoints and logs of a model
directory. Commands call `launch`, programs that have opened the data `fit`.
May import data, batches, scores and pictures.
"""
