"""Trains through `model.fit` under tf.distribute.

Prepared data and a plan come in; weights, checkpoints and logs of a model
directory go out. `launch` is a command's way in, `fit` that of who has the data
open. This room imports prepared data, batches, corpora, scores and pictures.
"""
