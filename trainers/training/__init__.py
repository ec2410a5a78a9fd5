"""Trains through `model.fit` under tf.distribute.

Prepared data and a plan come in; weights, checkpoints and logs of a model
directory go out. `fit` is the way in. This room imports batches, scores and
pictures.
"""
