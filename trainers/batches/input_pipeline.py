"""The plan's batches as data for `model.fit`, on any number of replicas."""

import itertools

import tensorflow as tf

from trainers.batches.collate import (
    make_batch,
    make_packed_batch,
    shard_for_replica,
)

_IDS = tf.TensorSpec([None, None], tf.int32)


def training_data(strategy, pairs, plan, step):
    """Returns batches without end, from a step on.

    Args:
        strategy: tf.distribute.Strategy.
        pairs: TokenPairs.
        plan: BatchPlan.
        step: number of batches already used.

    Returns:
        tf.distribute.DistributedDataset of (inputs, labels) as the model
        takes them, int32 [rows, L]; the target begins with the begin id, the
        labels end with the end id. Each replica gets its share of the rows
        of the global batch, which is the same for any number of them.
    """
    return _distributed(strategy, pairs, plan, lambda: plan.from_step(step))


def evaluation_data(strategy, pairs, plan):
    """Returns every pair once, again and again.

    Ask fit for `plan.batches_per_epoch` steps of it.

    Args:
        strategy: tf.distribute.Strategy.
        pairs: TokenPairs.
        plan: BatchPlan.

    Returns:
        As `training_data`.
    """
    return _distributed(
        strategy, pairs, plan, lambda: itertools.cycle(plan.epoch(0))
    )


def _distributed(strategy, pairs, plan, batches):
    replicas = strategy.num_replicas_in_sync
    packed = _is_packed(plan)
    make = make_packed_batch if packed else make_batch

    def of_worker(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local

        def parts():
            for batch in batches():
                arrays = make(pairs, batch)
                for replica in range(first, first + local):
                    yield shard_for_replica(arrays, replica, replicas)

        return _dataset(parts, packed, prefetch=4 * local)

    return strategy.distribute_datasets_from_function(of_worker)


def _is_packed(plan):
    """Whether a row may hold several pairs."""
    return any(
        len(bucket.pairs) > len(bucket.starts) - 1 for bucket in plan.buckets
    )


def _dataset(parts, packed, prefetch):
    names = ["source", "target"]
    if packed:
        names += [
            f"{side}_{what}"
            for side in ("source", "target")
            for what in ("segments", "positions")
        ]
    signature = (dict.fromkeys(names, _IDS), _IDS)
    dataset = tf.data.Dataset.from_generator(parts, output_signature=signature)
    options = tf.data.Options()
    # There is nothing to tune, and the tuning thread sleeps up to a minute
    # when its iterator is freed.
    options.autotune.enabled = False
    # Without it, every step would first ask all replicas for what is left.
    endless = tf.data.experimental.assert_cardinality(
        tf.data.INFINITE_CARDINALITY
    )
    return dataset.apply(endless).prefetch(prefetch).with_options(options)
