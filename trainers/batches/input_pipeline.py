"""Feeds the batches of a BatchPlan to `model.fit` on any replicas."""

import itertools

import tensorflow as tf

from trainers.batches.token_pairs import make_batch, shard_for_replica

_IDS = tf.TensorSpec([None, None], tf.int32)


def training_data(strategy, pairs, plan, step):
    """Returns endless training batches, skipping the first `step` ones.

    A tf.distribute.DistributedDataset of (inputs, labels), see `make_batch`;
    each replica gets its rows of the global batch.
    """
    return _distribute(strategy, pairs, plan, lambda: plan.from_step(step))


def evaluation_data(strategy, pairs, plan):
    """Returns the batches of epoch 0 repeated endlessly.

    An evaluation of all pairs takes `plan.batches_per_epoch` steps.
    """
    return _distribute(
        strategy, pairs, plan, lambda: itertools.cycle(plan.epoch(0))
    )


def _distribute(strategy, pairs, plan, iterate_batches):
    replicas = strategy.num_replicas_in_sync
    names = ["source", "target"]
    if plan.is_packed:
        names += ["source_segments", "source_positions"]
        names += ["target_segments", "target_positions"]

    def make_worker_dataset(context):
        local_replicas = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local_replicas

        def shards():
            for batch in iterate_batches():
                arrays = make_batch(pairs, batch, plan.is_packed)
                for replica in range(first, first + local_replicas):
                    yield shard_for_replica(arrays, replica, replicas)

        dataset = tf.data.Dataset.from_generator(
            shards, output_signature=(dict.fromkeys(names, _IDS), _IDS)
        )
        # Otherwise each step would check on all replicas whether data remain.
        endless = tf.data.experimental.assert_cardinality(
            tf.data.INFINITE_CARDINALITY
        )
        options = tf.data.Options()
        # With autotune, freeing an iterator can wait a minute for its thread.
        options.autotune.enabled = False
        dataset = dataset.apply(endless).prefetch(4 * local_replicas)
        return dataset.with_options(options)

    return strategy.distribute_datasets_from_function(make_worker_dataset)
