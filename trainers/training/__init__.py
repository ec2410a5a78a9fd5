"""Training through `model.fit` under tf.distribute or keras.distribution.

`launch` runs a command, from its flags to the scores; `fit` trains on
`training_inputs`, with `callbacks`, `dev_scores` and `checkpoints`. `backend`
chooses the model and the devices of TensorFlow or of JAX.
"""
