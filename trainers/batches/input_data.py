"""The plan's batches as data for `model.fit`, on any number of replicas."""

import itertools

import numpy as np
import tensorflow as tf

from keras_transformer.config import BEGIN_ID
from trainers.batches.token_pairs import ranges

_IDS = tf.TensorSpec([None, None], tf.int32)


def training_data(strategy, pairs, plan, step, micro_batches=1):
    """Returns batches without end, from a step on.

    Args:
        strategy: tf.distribute.Strategy.
        pairs: TokenPairs.
        plan: BatchPlan.
        step: number of batches already used.
        micro_batches: equal parts that a replica's rows must divide into.

    Returns:
        tf.distribute.DistributedDataset of (inputs, labels) as the model
        takes them, int32 [rows, L]; the target begins with the begin id, the
        labels end with the end id. Each replica gets its share of the rows
        of the global batch, which is the same for any number of them.
    """
    return _distributed(
        strategy, pairs, plan, lambda: plan.from_step(step), micro_batches
    )


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
        strategy, pairs, plan, lambda: itertools.cycle(plan.epoch(0)), 1
    )


def _distributed(strategy, pairs, plan, batches, micro_batches):
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
                    yield part_of(arrays, replica, replicas, micro_batches)

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


def part_of(arrays, replica, replicas, micro_batches):
    """Returns one replica's share of a batch.

    Args:
        arrays: (inputs, labels) of [rows, L].
        replica: its number, from 0.
        replicas: how many there are.
        micro_batches: the share's rows are a multiple of this.

    Returns:
        (inputs, labels) with as many rows for every replica; where they do
        not divide evenly, the last ones are padding.
    """
    rows = len(arrays[1])
    share = -(-rows // (replicas * micro_batches)) * micro_batches

    def cut(array):
        part = array[replica * share : (replica + 1) * share]
        missing = share - len(part)
        return np.pad(part, ((0, missing), (0, 0))) if missing else part

    inputs, labels = arrays
    return {name: cut(array) for name, array in inputs.items()}, cut(labels)


def make_batch(pairs, batch):
    """Returns inputs and labels of a batch with one pair a row.

    Args:
        pairs: TokenPairs.
        batch: Batch.

    Returns:
        ({"source", "target"}, labels), int32 [rows, S], [rows, T] and
        [rows, T].
    """
    return _placed(pairs, batch, *_sides(pairs, batch))


def make_packed_batch(pairs, batch):
    """Returns inputs and labels of a batch with several pairs a row.

    Args:
        pairs: TokenPairs.
        batch: Batch.

    Returns:
        As `make_batch`, and in the inputs `source_segments`,
        `target_segments`, `source_positions`, `target_positions`.
    """
    sides = _sides(pairs, batch)
    inputs, labels = _placed(pairs, batch, *sides)
    for name, side in zip(("source", "target"), sides):
        inputs[f"{name}_segments"] = side.segments()
        inputs[f"{name}_positions"] = side.positions()
    return inputs, labels


def _placed(pairs, batch, source, target):
    labels = target.place(pairs.targets(batch.pairs))
    inputs = {
        "source": source.place(pairs.sources(batch.pairs)),
        "target": target.shifted(labels),
    }
    return inputs, labels


def _sides(pairs, batch):
    rows, source_length, target_length = batch.shape
    return (
        _Side(
            pairs.source_lengths[batch.pairs], batch.rows, (rows, source_length)
        ),
        _Side(
            pairs.target_lengths[batch.pairs], batch.rows, (rows, target_length)
        ),
    )


class _Side:
    """Where the sentences of one side of a batch stand in its matrix."""

    def __init__(self, lengths, rows, shape):
        self._lengths, self._shape = lengths, shape
        # rows is ascending: the first sentence of each row begins it.
        self._first_of_row = np.searchsorted(rows, rows)
        before = np.cumsum(lengths) - lengths
        columns = before - before[self._first_of_row]
        self._starts = rows.astype(np.int64) * shape[1] + columns
        self._places = ranges(self._starts, lengths)

    def place(self, values):
        """Puts one value a token into a matrix of 0: int32 [rows, L]."""
        matrix = np.zeros(self._shape, np.int32)
        matrix.reshape(-1)[self._places] = values
        return matrix

    def shifted(self, labels):
        """The decoder's input: each sentence one to the right."""
        target = np.roll(labels, 1, axis=1)
        target.reshape(-1)[self._starts] = BEGIN_ID
        # The decoder's input has no end id: where it would stand is padding.
        target[labels == 0] = 0
        return target

    def segments(self):
        """The number of each token's sentence in its row, from 1."""
        numbers = np.arange(len(self._lengths)) - self._first_of_row + 1
        return self.place(np.repeat(numbers, self._lengths))

    def positions(self):
        """The position of each token in its sentence, from 0."""
        return self.place(
            ranges(np.zeros(len(self._lengths), np.int64), self._lengths)
        )
