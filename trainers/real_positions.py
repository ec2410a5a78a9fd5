"""What of a padded batch has a loss."""

import tensorflow as tf

from keras_transformer.special_ids import PAD_ID


def real_positions(labels, states):
    """Returns labels and states of the positions that are no padding.

    So no logits are made of padding, which are most of what a position
    costs. Their number differs from batch to batch, so this is not for XLA,
    which compiles for each shape anew.

    Args:
        labels: int32 [B, T], 0 on padding.
        states: float [B, T, D].

    Returns:
        int32 [N] and float [N, D].
    """
    labels = tf.reshape(labels, [-1])
    places = tf.where(labels != PAD_ID)[:, 0]
    states = tf.reshape(states, [-1, states.shape[-1]])
    return tf.gather(labels, places), tf.gather(states, places)
