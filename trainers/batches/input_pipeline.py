"""Feeds batches to `model.fit` on any replicas."""

import tensorflow as tf

from trainers.batches import GroupedBatches, PlannedBatches
from trainers.batches.token_pairs import shard_for_replica

_IDS = tf.TensorSpec([None, None], tf.int32)


def training_data(
    strategy: tf.distribute.Strategy,
    batches: GroupedBatches | PlannedBatches,
    step: int,
) -> tf.distribute.DistributedDataset:
    """Returns endless training batches, skipping the first `step` ones.

    `batches` are GroupedBatches or PlannedBatches. A
    tf.distribute.DistributedDataset of (inputs, labels), see `make_batch`; each
    replica gets its rows of the global batch.
    """
    return _distribute(
        strategy, batches.is_packed, lambda: batches.from_step(step)
    )


def evaluation_data(
    strategy: tf.distribute.Strategy, batches: PlannedBatches
) -> tf.distribute.DistributedDataset:
    """Returns the batches of epoch 0 of PlannedBatches, repeated endlessly.

    An evaluation of all pairs takes `batches.batches_per_epoch` steps.
    """

    def repeat_epoch():
        while True:
            yield from batches.epoch(0)

    return _distribute(strategy, batches.is_packed, repeat_epoch)


def _distribute(strategy, is_packed, iterate_batches):
    replicas = strategy.num_replicas_in_sync
    names = ["source", "target"]
    if is_packed:
        names += ["source_segments", "source_positions"]
        names += ["target_segments", "target_positions"]

    def make_worker_dataset(context):
        local_replicas = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local_replicas

        def shards():
            for arrays in iterate_batches():
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
