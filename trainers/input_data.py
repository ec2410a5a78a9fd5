"""The plan's batches as a tf.data.Dataset for `model.fit`."""

import numpy as np
import tensorflow as tf

from keras_transformer.special_ids import BEGIN_ID
from trainers.token_pairs import padded

_IDS = tf.TensorSpec([None, None], tf.int32)
_SIGNATURE = ({"source": _IDS, "target": _IDS}, _IDS)


def training_data(pairs, plan, step):
    """Returns batches without end, from a step on.

    Args:
        pairs: TokenPairs.
        plan: LengthBatches.
        step: number of batches already used.

    Returns:
        tf.data.Dataset of ({"source", "target"}, labels), int32 [B, L]; the
        target begins with the begin id, the labels end with the end id.
    """

    def batches():
        for rows, length in plan.from_step(step):
            yield make_batch(pairs, rows, length)

    return _dataset(batches)


def evaluation_data(pairs, plan):
    """Returns every pair once, as `training_data` gives them."""

    def batches():
        for rows, length in plan.epoch(0):
            yield make_batch(pairs, rows, length)

    return _dataset(batches).apply(
        tf.data.experimental.assert_cardinality(plan.batches_per_epoch)
    )


def _dataset(batches):
    dataset = tf.data.Dataset.from_generator(
        batches, output_signature=_SIGNATURE
    )
    options = tf.data.Options()
    # There is nothing to tune, and the tuning thread sleeps up to a minute
    # when its iterator is freed.
    options.autotune.enabled = False
    return dataset.prefetch(8).with_options(options)


def make_batch(pairs, rows, length):
    """Returns the inputs and labels of one batch.

    Args:
        pairs: TokenPairs.
        rows: int64 [B], numbers of pairs; -1 is a row of padding.
        length: padded length of both sides.

    Returns:
        ({"source", "target"}, labels), int32 [B, length] each.
    """
    source = padded(pairs.source, pairs.source_starts, rows, length)
    labels = padded(pairs.target, pairs.target_starts, rows, length)
    target = np.roll(labels, 1, axis=1)
    target[:, 0] = BEGIN_ID
    # The decoder's input has no end id: where it would stand is padding.
    target[labels == 0] = 0
    return {"source": source, "target": target}, labels
