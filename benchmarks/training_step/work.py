"""What is counted of each system: the products that its updates make."""

import math

import numpy as np

from trainers.batches.matrices import make_packed_batch
from trainers.batches.packed import plan_packed
from trainers.batches.token_pairs import TokenPairs
from trainers.cost.flops import (
    Product,
    step_products,
    weight_products,
)

# Rows of the large square matrices.
_SQUARE = {"cpu": 2048, "gpu": 8192}
# As the trainer's default; a little less where that wastes no row, as rows
# come in multiples of 8.
ROW_TOKENS = 128
_ROW_MULTIPLE = 8
# Positions of a row for each real token.
_ROOM = 1.02
_SEED = 1


def model_work(job, batch):
    """Returns what is counted of a model: its products with weights."""
    return weight_products(*_sizes(job, batch))


def real_logits_work(job, batch):
    """Returns what is counted of our trainer's step."""
    return weight_products(*_sizes(job, batch), real_logits(job, batch))


def real_logits(job, batch):
    """Returns of how many positions our trainer makes logits; None for all.

    It makes none of padding where XLA is off, which is on CPUs.
    """
    return batch.target_tokens if job.device == "cpu" else None


def products_work(job, batch):
    """Returns all the products of a step, for the system that makes them."""
    return step_products(*_sizes(job, batch))


def square_work(job, batch):
    """Returns one product of large square matrices, whatever the batch."""
    del batch
    rows = _SQUARE[job.device]
    return [Product(1, 1, rows, rows, rows)]


def _sizes(job, batch):
    return job.config, *batch.source.shape, batch.target.shape[1]


def pack(batch):
    """Returns the model's inputs and labels for a StepBatch's pairs.

    Args:
        batch: StepBatch.

    Returns:
        ({"source", "target", and of each side segments and positions},
        labels), int32 [rows, S] for the source, [rows, T] for the rest.
    """
    pairs = TokenPairs([_shard(batch)])
    lengths = pairs.source_lengths, pairs.target_lengths
    # So much room that one batch holds them all.
    room = 2 * (batch.source.size + batch.labels.size)
    plan = plan_packed(*lengths, room, _row_tokens(*lengths), _SEED)
    [whole] = plan.epoch(0)
    return make_packed_batch(pairs, whole)


def packed_work(job, batch):
    """Returns what is counted of a model that is given the packed pairs."""
    inputs, labels = pack(batch)
    sizes = *inputs["source"].shape, labels.shape[1]
    return weight_products(job.config, *sizes, real_logits(job, batch))


def _row_tokens(source_lengths, target_lengths):
    room = _ROOM * max(source_lengths.sum(), target_lengths.sum())
    rows = _ROW_MULTIPLE * math.ceil(room / ROW_TOKENS / _ROW_MULTIPLE)
    return math.ceil(room / rows)


def _shard(batch):
    """Returns ids and lengths of a batch's pairs as TokenPairs takes them."""
    sides = batch.source, batch.labels
    lengths = np.stack([(side != 0).sum(axis=1) for side in sides], axis=1)
    both = np.concatenate(sides, axis=1)
    return both[both != 0], lengths
